// Keys of a Redis database: a grid that is read page by page, and what is done with many keys at once.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { count, identity, quoted, shown, size } from "./bytes.js";
import { Busy, Confirm, Problem, download, go, link, noteChange, useAct } from "./ui.js";
import { Welcome } from "./connect.js";
import { NewKey, OneKey } from "./redis_key.js";

const PAGE = 100;
/** Rounds of SCAN for one page: a pattern that few keys fit must not keep anybody waiting. */
const ROUNDS_MAX = 20;
const BATCH = "500";
const TYPES = ["", "string", "hash", "list", "set", "zset", "stream", "ReJSON-RL", "vectorset", "vector", "search"];

const hasWildcard = (text) => /[*?[\]]/.test(text);
const patternOf = (text) => (text === "" ? "*" : hasWildcard(text) ? text : `*${text.replace(/\\/g, "\\\\")}*`);

const scanWords = (cursor, pattern, type) => ["SCAN", cursor, "MATCH", pattern, "COUNT", BATCH, ...(type ? ["TYPE", type] : [])];

/** What there is to say of keys that were found. */
async function described(database, names) {
  const commands = names.flatMap((name) => [["TYPE", name], ["PTTL", name], ["MEMORY", "USAGE", name]]);
  const replies = await api.redisAll(database, commands);
  const value = (index) => replies[index]?.result;
  return names.map((name, index) => ({ name, type: value(3 * index), ttl: value(3 * index + 1), bytes: value(3 * index + 2) }));
}

/** One page of keys behind `cursor`. */
async function page(database, cursor, pattern, type) {
  const found = new Map();
  let rounds = 0;
  do {
    const [next, names] = await api.redis(database, ...scanWords(cursor, pattern, type));
    for (const name of names) found.set(identity(name), name);
    cursor = next;
    rounds++;
  } while (cursor !== "0" && found.size < PAGE && rounds < ROUNDS_MAX);
  return { keys: await described(database, [...found.values()]), cursor };
}

export function ttlText(millis) {
  if (millis === undefined || millis === null || millis < 0) return "";
  const seconds = Number(millis) / 1000;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  if (seconds < 172_800) return `${(seconds / 3600).toFixed(0)} h`;
  return `${(seconds / 86_400).toFixed(0)} d`;
}

/** Walks all keys that fit and gives each batch of names to `each`; answers how many there were. `isOver` ends it early. */
async function walk(database, pattern, type, each, isOver) {
  let cursor = "0";
  let number = 0;
  do {
    const [next, names] = await api.redis(database, ...scanWords(cursor, pattern, type));
    if (names.length > 0) await each(names);
    number += names.length;
    cursor = next;
  } while (cursor !== "0" && !isOver());
  return number;
}

function BulkDelete({ database, pattern, type, chosen, onDone }) {
  const [ask, setAsk] = useState(null);
  const [progress, tell] = useState(null);
  const [act, { busy, error }] = useAct();
  const isOver = useRef(false);
  useEffect(() => () => void (isOver.current = true), []);
  const remove = (names) => api.redis(database, "UNLINK", ...names);
  const askForChosen = () =>
    setAsk({
      title: `Delete ${count(chosen.length)} keys?`,
      text: "They are gone at once, and there is no way back.",
      action: "Delete",
      act: async () => {
        for (let index = 0; index < chosen.length; index += 500) await remove(chosen.slice(index, index + 500));
        onDone();
      },
    });
  const askForAll = () =>
    act(async () => {
      isOver.current = false;
      let number = 0;
      await walk(database, pattern, type, (names) => tell(`${count((number += names.length))} counted`), () => isOver.current);
      tell(null);
      if (isOver.current) return;
      setAsk({
        title: `Delete all ${count(number)} keys that fit ${pattern}?`,
        text: `Counted now: ${count(number)}${type ? ` of type ${type}` : ""}. Keys that match meanwhile are deleted too.`,
        word: String(number),
        action: `Delete ${count(number)} keys`,
        act: async () => {
          let deleted = 0;
          await walk(database, pattern, type, async (names) => tell(`${count((deleted += await remove(names)))} deleted`), () => isOver.current);
          tell(null);
          onDone();
        },
      });
    });
  return html`${chosen.length > 0
      ? html`<button class="danger" onClick=${askForChosen}>Delete ${count(chosen.length)} chosen</button>`
      : html`<button class="danger" id="delete-matching" disabled=${busy} onClick=${askForAll}>Delete matching…</button>`}
    ${progress && html`<span role="status">${progress} <button class="small" onClick=${() => (isOver.current = true)}>Stop</button></span>`}
    <${Problem} error=${error} />
    <${Confirm} ask=${ask} onEnd=${() => { isOver.current = true; setAsk(null); }} />`;
}

/** What is shown, with values, one line of JSON for each key. */
async function exported(database, keys) {
  const read = {
    string: (name) => ["GET", name],
    hash: (name) => ["HGETALL", name],
    list: (name) => ["LRANGE", name, "0", "-1"],
    set: (name) => ["SMEMBERS", name],
    zset: (name) => ["ZRANGE", name, "0", "-1", "WITHSCORES"],
    stream: (name) => ["XRANGE", name, "-", "+"],
    "ReJSON-RL": (name) => ["JSON.GET", name],
  };
  const known = keys.filter((key) => key.type in read);
  const replies = await api.redisAll(database, known.map((key) => read[key.type](key.name)));
  const plain = (value) => (Array.isArray(value) ? value.map(plain) : value === null || typeof value === "number" ? value : shown(value));
  const line = (key, index) => JSON.stringify({ key: shown(key.name), type: key.type, ttl_ms: Number(key.ttl), value: plain(replies[index].result ?? null) });
  return known.map(line).join("\n") + "\n";
}

export function Keys({ database, parts, session }) {
  const [search, setSearch] = useState(parts[0] ?? "");
  const [type, setType] = useState("");
  const [found, setFound] = useState({ keys: [], cursor: "0" });
  const [chosen, choose] = useState(new Map());
  const [total, setTotal] = useState(null);
  const [isNew, setNew] = useState(false);
  const [act, { busy, error }] = useAct();
  const [exporting, { error: exportError }] = useAct();
  const turn = useRef(0);
  const opened = parts[1];
  const pattern = patternOf(search);
  const isServed = session.databases.find(({ name }) => name === database)?.redis;

  const load = (cursor, before) => {
    const mine = ++turn.current;
    return act(async () => {
      const next = await page(database, cursor, pattern, type);
      if (mine !== turn.current) return;
      const known = new Set(before.map((key) => identity(key.name)));
      setFound({ keys: [...before, ...next.keys.filter((key) => !known.has(identity(key.name)))], cursor: next.cursor });
    });
  };
  const reload = () => {
    choose(new Map());
    api.redis(database, "DBSIZE").then(setTotal, () => setTotal(null));
    return load("0", []);
  };
  const changed = () => {
    noteChange();
    reload();
  };
  useEffect(() => setSearch(parts[0] ?? ""), [parts[0]]);
  useEffect(() => {
    if (!isServed) return;
    const waiting = setTimeout(reload, 200);
    return () => clearTimeout(waiting);
  }, [database, isServed, search, type]);

  if (!isServed) return html`<p>This session has no credential for Redis in <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;
  const toggle = (key) => {
    const next = new Map(chosen);
    if (!next.delete(identity(key.name))) next.set(identity(key.name), key.name);
    choose(next);
  };
  // A name that is no text stands in the address as redis-cli quotes it.
  const nameOf = (key) => (typeof key.name === "string" ? key.name : quoted(key.name));
  const isOpen = (key) => opened !== undefined && nameOf(key) === opened;
  const word = search && !hasWildcard(search) ? search : null;
  return html`<div class=${opened !== undefined || isNew ? "split" : "split alone"}>
    <section aria-label="Keys">
      <form class="row" role="search" onSubmit=${(event) => { event.preventDefault(); reload(); }}>
        <input class="grow mono" id="search" type="search" placeholder="search, or a pattern: user:*" aria-label="Search keys" value=${search} onInput=${(event) => setSearch(event.target.value)} />
        <select aria-label="Type" value=${type} onChange=${(event) => setType(event.target.value)}>
          ${TYPES.map((name) => html`<option key=${name} value=${name}>${name === "" ? "all types" : name === "ReJSON-RL" ? "JSON" : name}</option>`)}
        </select>
        <button disabled=${busy}>Refresh</button>
        <button type="button" id="new-key" onClick=${() => setNew(true)}>New key</button>
      </form>
      <div class="row">
        <span class="dim" id="shown-count" role="status">${count(found.keys.length)} shown${found.cursor === "0" ? "" : ", more to come"}${total === null ? "" : ` of ${count(total)} in the database`}</span>
        <${BulkDelete} key=${pattern + type} database=${database} pattern=${pattern} type=${type} chosen=${[...chosen.values()]} onDone=${changed} />
        <button disabled=${found.keys.length === 0} onClick=${() => exporting(async () => download(`${database}-keys.jsonl`, await exported(database, found.keys)))}>Export shown</button>
        ${word && html`<a class="button" href=${link("redis", database, search, word)}>Open “${word}”</a>`}
      </div>
      <${Problem} error=${error ?? exportError} />
      ${error && html`<p class="dim">A credential that may not list keys can still open one: type its whole name above.</p>`}
      <div class="scroll"><table id="keys">
        <thead><tr><th></th><th>Key</th><th>Type</th><th class="number optional">TTL</th><th class="number optional">Memory</th></tr></thead>
        <tbody>${found.keys.map(
          (key) => html`<tr key=${identity(key.name)} class=${isOpen(key) ? "chosen" : ""}>
            <td><input type="checkbox" aria-label=${"Choose " + shown(key.name)} checked=${chosen.has(identity(key.name))} onChange=${() => toggle(key)} /></td>
            <td><a class="key" href=${link("redis", database, search, nameOf(key))}>${shown(key.name) || "(empty name)"}</a></td>
            <td><span class="type">${key.type === "ReJSON-RL" ? "json" : key.type}</span></td>
            <td class="number optional">${ttlText(key.ttl)}</td>
            <td class="number optional">${size(key.bytes)}</td>
          </tr>`,
        )}</tbody>
      </table></div>
      ${found.cursor !== "0" && html`<div class="row"><button id="more" disabled=${busy} onClick=${() => load(found.cursor, found.keys)}>More</button></div>`}
      ${busy && html`<${Busy} />`}
      ${!busy && found.keys.length === 0 && !error && (total === 0 && search === "" ? html`<${Welcome} session=${session} database=${database} onMade=${reload} />` : html`<p class="dim">No keys.</p>`)}
    </section>
    ${isNew
      ? html`<section class="panel" aria-label="New key"><${NewKey} database=${database} onCancel=${() => setNew(false)} onDone=${(name) => { setNew(false); changed(); go("redis", database, search, name); }} /></section>`
      : opened !== undefined &&
        html`<section class="panel" aria-label="Key"><${OneKey} key=${database + "/" + opened} database=${database} name=${opened}
          onChanged=${changed} onGone=${() => { go("redis", database, search); changed(); }} onRenamed=${(name) => { changed(); go("redis", database, search, name); }} /></section>`}
  </div>`;
}
