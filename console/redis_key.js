// One key: what it is, how long it stays, and an editor for its type.

import { html, useState } from "./html.js";
import * as api from "./api.js";
import { count, fromBytes, identity, percentEncoded, quoted, shown, size, splitLine } from "./bytes.js";
import { History, bytesOf } from "./history.js";
import { VectorIndex, VectorSet } from "./neighbours.js";
import { SearchKey } from "./search_key.js";
import { Busy, Confirm, Copy, Problem, Text, link, useAct, useLoaded } from "./ui.js";

/** A string beyond this is shown in part, and not edited. */
const TEXT_BYTES_MAX = 64 * 1024;
const PAGE = 50;

/** A name in an address: plain, or as redis-cli quotes what is no text. */
function wordOf(name) {
  if (!/^".*\\x/.test(name)) return name;
  try {
    const words = splitLine(name);
    return words.length === 1 ? words[0] : name;
  } catch {
    return name;
  }
}

function Lifetime({ database, name, ttl, onChanged }) {
  const [seconds, set] = useState(ttl >= 0 ? String(Math.ceil(Number(ttl) / 1000)) : "");
  const [act, { busy, error }] = useAct();
  const save = (event) => {
    event.preventDefault();
    act(async () => {
      await (seconds === "" ? api.redis(database, "PERSIST", name) : api.redis(database, "EXPIRE", name, seconds));
      onChanged();
    });
  };
  return html`<form class="row" onSubmit=${save}>
    <label class="line">TTL <input id="ttl" size="8" inputmode="numeric" pattern="[0-9]*" placeholder="for ever" value=${seconds} onInput=${(event) => set(event.target.value)} /> s</label>
    <button class="small" disabled=${busy}>Set</button>
    <${Problem} error=${error} />
  </form>`;
}

function Heading({ database, name, about, onChanged, onGone, onRenamed }) {
  const [ask, setAsk] = useState(null);
  const [renaming, setRenaming] = useState(null);
  const [act, { error }] = useAct();
  const rename = (event) => {
    event.preventDefault();
    act(async () => {
      const done = await api.redis(database, "RENAMENX", name, renaming);
      if (done === 0) throw new Error("there is a key of that name");
      onRenamed(renaming);
    });
  };
  const askToDelete = () =>
    setAsk({ title: "Delete this key?", text: shown(name), action: "Delete", act: async () => { await api.redis(database, "UNLINK", name); onGone(); } });
  return html`<h2 id="key-name">${shown(name) || "(empty name)"}</h2>
    <div class="row">
      <span class="type">${about.type === "ReJSON-RL" ? "json" : about.type}</span>
      <span class="dim">${about.encoding} ${size(about.bytes)}</span>
      <button class="small" onClick=${onChanged}>Refresh</button>
      <button class="small" onClick=${() => setRenaming(shown(name))}>Rename</button>
      <button class="small danger" id="delete-key" onClick=${askToDelete}>Delete</button>
      <a class="button small" href=${link("tail", database, "redis", typeof name === "string" ? name : "")}>Watch</a>
    </div>
    ${renaming !== null &&
    html`<form class="row" onSubmit=${rename}>
      <input class="grow mono" aria-label="New name" value=${renaming} onInput=${(event) => setRenaming(event.target.value)} />
      <button class="main">Rename</button><button type="button" onClick=${() => setRenaming(null)}>Cancel</button>
    </form>`}
    <${Lifetime} key=${String(about.ttl)} database=${database} name=${name} ttl=${about.ttl} onChanged=${onChanged} />
    <${Problem} error=${error} />
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} />`;
}

const asPretty = (text) => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
};

function StringEditor({ database, name, onChanged }) {
  const [edited, edit] = useState(null);
  const [act, { busy, error: saveError }] = useAct();
  const { value, error, loading } = useLoaded(async () => {
    const length = await api.redis(database, "STRLEN", name);
    const part = await api.redis(database, "GETRANGE", name, "0", String(TEXT_BYTES_MAX - 1));
    return { length, part };
  }, [database, name]);
  if (error) return html`<${Problem} error=${error} />`;
  if (loading && !value) return html`<${Busy} />`;
  const { length, part } = value;
  const isWhole = length <= TEXT_BYTES_MAX && typeof part === "string";
  const text = edited ?? shown(part);
  const pretty = asPretty(text);
  const save = () =>
    act(async () => {
      await api.redis(database, "SET", name, text, "KEEPTTL");
      onChanged();
    });
  return html`<${Text} id="string-value" label="Value" value=${text} readOnly=${!isWhole} onInput=${edit} onSave=${save} rows=${12} />
    <div class="row">
      ${isWhole
        ? html`<button class="main" id="save" disabled=${busy || edited === null} onClick=${save}>Save</button>
            ${pretty !== null && pretty !== text && html`<button onClick=${() => edit(pretty)}>Indent JSON</button>`}`
        : html`<span class="dim">${typeof part === "string" ? `the first ${size(TEXT_BYTES_MAX)} of ${size(length)}` : "bytes that are no text"}: shown, not edited</span>`}
      <${Copy} text=${text} />
      <span class="dim">${size(length)}</span>
    </div>
    <${Problem} error=${saveError} />`;
}

function JsonEditor({ database, name, onChanged }) {
  const [edited, edit] = useState(null);
  const [act, { busy, error: saveError }] = useAct();
  const { value, error, loading } = useLoaded(() => api.redis(database, "JSON.GET", name, "INDENT", "  ", "NEWLINE", "\n", "SPACE", " "), [database, name]);
  if (error) return html`<${Problem} error=${error} />`;
  if (loading && value === undefined) return html`<${Busy} />`;
  const text = edited ?? shown(value);
  const save = () =>
    act(async () => {
      await api.redis(database, "JSON.SET", name, "$", text);
      onChanged();
    });
  return html`<${Text} id="json-value" label="JSON" value=${text} onInput=${edit} onSave=${save} rows=${16} />
    <div class="row"><button class="main" id="save" disabled=${busy || edited === null} onClick=${save}>Save</button><${Copy} text=${text} /></div>
    <${Problem} error=${saveError} />`;
}

/** How each type with elements is read page by page and changed. A row is `{cells, id}`; `at` says where the next page begins. */
const COLLECTIONS = {
  hash: {
    columns: ["field", "value"],
    first: "0",
    async read(database, name, at) {
      const [next, flat] = await api.redis(database, "HSCAN", name, at, "COUNT", String(PAGE));
      return { rows: pairs(flat), next: next === "0" ? null : next };
    },
    add: (name, [field, value]) => [["HSET", name, field, value]],
    change: (name, row, [field, value]) => (shown(row.cells[0]) === field ? [["HSET", name, row.cells[0], value]] : [["HDEL", name, row.cells[0]], ["HSET", name, field, value]]),
    remove: (name, row) => [["HDEL", name, row.cells[0]]],
  },
  set: {
    columns: ["member"],
    first: "0",
    async read(database, name, at) {
      const [next, members] = await api.redis(database, "SSCAN", name, at, "COUNT", String(PAGE));
      return { rows: members.map((member) => ({ cells: [member] })), next: next === "0" ? null : next };
    },
    add: (name, [member]) => [["SADD", name, member]],
    change: (name, row, [member]) => [["SREM", name, row.cells[0]], ["SADD", name, member]],
    remove: (name, row) => [["SREM", name, row.cells[0]]],
  },
  zset: {
    columns: ["score", "member"],
    first: 0,
    async read(database, name, at) {
      const flat = await api.redis(database, "ZRANGE", name, String(at), String(at + PAGE - 1), "WITHSCORES");
      const rows = pairs(flat).map(({ cells: [member, score] }) => ({ cells: [score, member] }));
      return { rows, next: rows.length < PAGE ? null : at + PAGE };
    },
    add: (name, [score, member]) => [["ZADD", name, score, member]],
    change: (name, row, [score, member]) =>
      shown(row.cells[1]) === member ? [["ZADD", name, score, row.cells[1]]] : [["ZREM", name, row.cells[1]], ["ZADD", name, score, member]],
    remove: (name, row) => [["ZREM", name, row.cells[1]]],
  },
  list: {
    columns: ["index", "element"],
    fixed: 1,
    first: 0,
    async read(database, name, at) {
      const elements = await api.redis(database, "LRANGE", name, String(at), String(at + PAGE - 1));
      return { rows: elements.map((element, index) => ({ cells: [at + index, element] })), next: elements.length < PAGE ? null : at + PAGE };
    },
    add: (name, [, element]) => [["RPUSH", name, element]],
    change: (name, row, [, element]) => [["LSET", name, row.cells[0], element]],
    // Redis removes by value: the element is replaced by what nothing else is, and that is removed.
    remove(name, row) {
      const mark = "removed:" + crypto.randomUUID();
      return [["LSET", name, row.cells[0], mark], ["LREM", name, "1", mark]];
    },
  },
  stream: {
    columns: ["id", "fields"],
    first: "+",
    newest: "*",
    async read(database, name, at) {
      const entries = await api.redis(database, "XREVRANGE", name, at, "-", "COUNT", String(PAGE));
      const rows = entries.map(([id, flat]) => ({ cells: [id, flat.map(quoted).join(" ")] }));
      return { rows, next: entries.length < PAGE ? null : "(" + entries.at(-1)[0] };
    },
    add: (name, [id, fields]) => [["XADD", name, id || "*", ...splitLine(fields)]],
    remove: (name, row) => [["XDEL", name, row.cells[0]]],
  },
};

function pairs(flat) {
  const rows = [];
  for (let index = 0; index < flat.length; index += 2) rows.push({ cells: [flat[index], flat[index + 1]] });
  return rows;
}

const LENGTHS = { hash: "HLEN", set: "SCARD", zset: "ZCARD", list: "LLEN", stream: "XLEN" };

function Row({ kind, row, onSave, onRemove }) {
  const [cells, edit] = useState(null);
  const isText = row.cells.every((cell) => !(cell instanceof Uint8Array));
  if (cells === null) {
    return html`<tr>
      ${row.cells.map((cell, index) => html`<td class="mono" key=${index}>${shown(cell)}</td>`)}
      <td class="number">
        ${kind.change && isText && html`<button class="small" aria-label=${"Edit " + shown(row.cells[0])} onClick=${() => edit(row.cells.map(shown))}>Edit</button>`}
        <button class="small danger" aria-label=${"Remove " + shown(row.cells[0])} onClick=${onRemove}>✕</button>
      </td>
    </tr>`;
  }
  const fixed = kind.fixed ?? 0;
  const save = async () => {
    if (await onSave(cells)) edit(null);
  };
  return html`<tr>
    ${cells.map(
      (cell, index) => html`<td key=${index}>${index < fixed
          ? cell
          : html`<textarea rows="1" aria-label=${kind.columns[index]} value=${cell} onInput=${(event) => edit(cells.map((old, at) => (at === index ? event.target.value : old)))}
              onKeyDown=${(event) => (event.key === "Escape" ? edit(null) : event.key === "Enter" && (event.ctrlKey || event.metaKey) && save())}></textarea>`}</td>`,
    )}
    <td class="number"><button class="small main" onClick=${save}>Save</button> <button class="small" onClick=${() => edit(null)}>✕</button></td>
  </tr>`;
}

function Collection({ database, name, type, onChanged }) {
  const kind = COLLECTIONS[type];
  const [pages, setPages] = useState(null);
  const [fresh, setFresh] = useState(kind.columns.map(() => ""));
  const [act, { busy, error }] = useAct();
  const { value: length } = useLoaded(() => api.redis(database, LENGTHS[type], name), [database, name, pages]);
  const first = useLoaded(() => kind.read(database, name, kind.first), [database, name]);
  const shownPages = pages ?? (first.value ? [first.value] : []);
  const rows = shownPages.flatMap((page) => page.rows);
  const next = shownPages.at(-1)?.next ?? null;
  const run = (commands) =>
    act(async () => {
      const replies = await api.redisAll(database, commands, commands.length > 1);
      const failed = replies.find((reply) => reply.error !== undefined);
      if (failed) throw new Error(failed.error);
      setPages(null);
      first.reload();
      if ((await api.redis(database, "EXISTS", name)) === 0) onChanged();
      return true;
    });
  const more = () => act(async () => setPages([...shownPages, await kind.read(database, name, next)]));
  const add = async (event) => {
    event.preventDefault();
    if (await run(kind.add(name, fresh))) setFresh(kind.columns.map(() => ""));
  };
  const fixed = kind.fixed ?? 0;
  return html`<p class="dim">${length === undefined ? "" : `${count(length)} elements`}</p>
    <${Problem} error=${error ?? first.error} />
    <div class="scroll"><table id="elements">
      <thead><tr>${kind.columns.map((column) => html`<th key=${column}>${column}</th>`)}<th></th></tr></thead>
      <tbody>${rows.map((row) => html`<${Row} key=${row.cells.map(shown).join(" ")} kind=${kind} row=${row} onSave=${(cells) => run(kind.change(name, row, cells))} onRemove=${() => run(kind.remove(name, row))} />`)}</tbody>
    </table></div>
    ${next !== null && html`<button disabled=${busy} onClick=${more}>More</button>`}
    <form class="row" onSubmit=${add}>
      ${kind.columns.map(
        (column, index) =>
          index >= fixed &&
          html`<input key=${column} class="grow mono" aria-label=${"New " + column} placeholder=${type === "stream" ? ["* (next id)", 'field value "a field" …'][index] : column} value=${fresh[index]}
            onInput=${(event) => setFresh(fresh.map((old, at) => (at === index ? event.target.value : old)))} />`,
      )}
      <button class="main" disabled=${busy}>Add</button>
    </form>`;
}

function Editor(given) {
  const { type } = given;
  if (type === "string") return html`<${StringEditor} ...${given} />`;
  if (type === "ReJSON-RL") return html`<${JsonEditor} ...${given} />`;
  if (type === "vectorset") return html`<${VectorSet} ...${given} />`;
  if (type === "search") return html`<${SearchKey} ...${given} />`;
  if (type === "vector") return html`<${VectorIndex} ...${given} />`;
  if (type in COLLECTIONS) return html`<${Collection} ...${given} />`;
  return html`<p class="dim">There is no editor for the type ${type}.</p>`;
}

export function OneKey({ database, name: written, onChanged, onGone, onRenamed }) {
  const name = wordOf(written);
  const [turn, setTurn] = useState(0);
  const { value: about, error, loading, reload } = useLoaded(async () => {
    const replies = await api.redisAll(database, [["TYPE", name], ["PTTL", name], ["MEMORY", "USAGE", name], ["OBJECT", "ENCODING", name]]);
    if (replies[0].error) throw new Error(replies[0].error);
    const [type, ttl, bytes, encoding] = replies.map((reply) => reply.result);
    return { type, ttl, bytes, encoding };
  }, [database, written]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!about) return loading ? html`<${Busy} />` : null;
  const history = html`<${History} key=${written} database=${database} layer="redis" prefix=${percentEncoded(name)} read=${changeOf(name)} />`;
  if (about.type === "none") return html`<h2>${shown(name)}</h2><p>There is no such key.</p>${history}`;
  const changed = () => {
    setTurn(turn + 1);
    reload();
    onChanged();
  };
  return html`<${Heading} database=${database} name=${name} about=${about} onChanged=${changed} onGone=${onGone} onRenamed=${onRenamed} />
    <${Editor} key=${about.type + turn} type=${about.type} database=${database} name=${name} onChanged=${changed} />
    ${history}`;
}

/** What a change made of a key of the first numbered database, as a text; `null`: it is another's. */
const changeOf = (name) => (change) => {
  if (change.op === "clear") return (change.db ?? 0) === 0 ? "(deleted)" : null;
  if (change.db !== 0 || identity(memberOf(change, "key")) !== identity(name)) return null;
  if (change.op === "delete") return "(deleted)";
  const { layer, op, db, key, key_base64, type, ...rest } = change;
  if (op !== "put") return `${op.replace("_", " ")} ${JSON.stringify(rest, null, 2)}`;
  const expiry = rest.expires_ms ? `\n(until ${new Date(Number(rest.expires_ms)).toISOString()})` : "";
  const { expires_ms, ...content } = rest;
  return (typeof content.value === "string" ? content.value : JSON.stringify(content.value ?? content, null, 2)) + expiry;
};

/** A word of a change, as the rest of the page has it. */
function memberOf(change, member) {
  const bytes = bytesOf(change, member);
  return bytes === null ? "" : fromBytes(bytes);
}

/** What a new key of each type begins with. */
const BEGINNINGS = {
  string: { fields: ["value"], command: (name, [value]) => ["SET", name, value, "NX"] },
  hash: { fields: ["field", "value"], command: (name, [field, value]) => ["HSET", name, field, value] },
  list: { fields: ["element"], command: (name, [element]) => ["RPUSH", name, element] },
  set: { fields: ["member"], command: (name, [member]) => ["SADD", name, member] },
  zset: { fields: ["score", "member"], command: (name, [score, member]) => ["ZADD", name, score || "0", member] },
  stream: { fields: ["fields"], command: (name, [fields]) => ["XADD", name, "*", ...splitLine(fields)] },
  JSON: { fields: ["value"], command: (name, [value]) => ["JSON.SET", name, "$", value, "NX"] },
};

export function NewKey({ database, onCancel, onDone }) {
  const [type, setType] = useState("string");
  const [name, setName] = useState("");
  const [values, setValues] = useState(["", ""]);
  const [act, { busy, error }] = useAct();
  const { fields, command } = BEGINNINGS[type];
  const save = async (event) => {
    event.preventDefault();
    const done = await act(async () => {
      if ((await api.redis(database, "EXISTS", name)) === 1) throw new Error("there is a key of that name");
      await api.redis(database, ...command(name, values));
      return true;
    });
    if (done) onDone(name);
  };
  return html`<form onSubmit=${save}>
    <h2>New key</h2>
    <label>Name <input class="mono" id="new-name" autofocus value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <label>Type <select id="new-type" value=${type} onChange=${(event) => setType(event.target.value)}>${Object.keys(BEGINNINGS).map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
    ${fields.map(
      (field, index) => html`<label key=${field}>${field}
        <${Text} rows=${field === "value" ? 6 : 1} label=${field} value=${values[index]} onInput=${(text) => setValues(values.map((old, at) => (at === index ? text : old)))} />
      </label>`,
    )}
    <${Problem} error=${error} />
    <div class="row end"><button type="button" onClick=${onCancel}>Cancel</button><button class="main" id="create" disabled=${busy}>Create</button></div>
  </form>`;
}
