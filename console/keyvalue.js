// Rows of the key-value layer: directories, a grid of one's rows, and a row to edit. Keys and values are bytes, written as `fdbcli`
// writes them; in addresses they are hexadecimal.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { count, percentEncoded } from "./bytes.js";
import { Grid } from "./grid.js";
import { History, bytesOf } from "./history.js";
import { Busy, Confirm, Copy, Problem, Text, go, link, noteChange, useAct, useLoaded } from "./ui.js";
import { asTuple, behind, concat, elements, fromBase64, fromHex, fromPrintable, packBytes, printable, toBase64, toHex } from "./tuples.js";

const PAGE = 100;
const WALK = 1000;
/** Letters of a value that a grid shows. */
const CUT = 200;
/** Where FoundationDB's directory layer keeps what it knows of directories, and under which number of a node its subdirectories. */
const NODES = Uint8Array.of(0xfe);
const SUBDIRECTORIES = Uint8Array.of(0x14);

async function read(database, begin, end, rows) {
  const told = await api.keyvalue(database, { read: { begin: toBase64(begin), end: toBase64(end), rows } });
  return { rows: told.rows.map(([key, value]) => ({ key: fromBase64(key), value: fromBase64(value) })), more: told.more };
}

const write = (database, ...writes) => api.keyvalue(database, { write: writes });

const next = (key) => concat(key, [0]);

const isBelow = (left, right) => toHex(left) < toHex(right);

/** What a change made of a row, as a text; `null`: it is another's. */
const changeOf = (key) => (change) => {
  if (change.op === "clear_range") {
    const [start, end] = [bytesOf(change, "start"), bytesOf(change, "end")];
    return !isBelow(key, start) && isBelow(key, end) ? "(cleared)" : null;
  }
  if (toHex(bytesOf(change, "key")) !== toHex(key)) return null;
  if (change.op === "clear") return "(cleared)";
  return change.value_bytes === undefined ? printable(bytesOf(change, "value")) : `(${change.value_bytes} bytes)`;
};

/** Directories below the one whose rows begin with `prefix`; the root's is empty. */
export async function directories(database, prefix) {
  // The root's node is named by the place where nodes are kept.
  const node = concat(NODES, packBytes(prefix.length === 0 ? NODES : prefix), SUBDIRECTORIES);
  const { rows } = await read(database, node, behind(node), WALK);
  return rows.map(({ key, value }) => {
    const names = elements(key.slice(node.length));
    return { name: names === null ? printable(key.slice(node.length)) : names.map((name) => (name.startsWith('"') ? JSON.parse(name) : name)).join("/"), prefix: value };
  });
}

function Row({ database, prefix, hex, onChanged }) {
  const isNew = hex === "new";
  const [name, setName] = useState(printable(prefix));
  const [edited, edit] = useState(null);
  const [ask, setAsk] = useState(null);
  const [act, { busy, error }] = useAct();
  const key = isNew ? null : fromHex(hex);
  const load = async () => (isNew ? null : ((await read(database, key, next(key), 1)).rows[0] ?? null));
  const found = useLoaded(load, [database, hex]);
  if (!isNew && found.loading) return html`<${Busy} />`;
  if (found.error) return html`<${Problem} error=${found.error} />`;
  if (!isNew && found.value === null) return html`<p>There is no such key.</p>`;
  const written = edited ?? (isNew ? "" : printable(found.value.value));
  const save = () =>
    act(async () => {
      const own = isNew ? fromPrintable(name) : key;
      await write(database, { set: [toBase64(own), toBase64(fromPrintable(written))] });
      edit(null);
      onChanged(own);
      found.reload();
    });
  const remove = () =>
    setAsk({ title: "Delete this key?", text: printable(key), action: "Delete", act: async () => (await write(database, { clear: toBase64(key) }), onChanged(null)) });
  return html`<h2>${isNew ? "New key" : (asTuple(key.slice(prefix.length)) ?? printable(key))}</h2>
    ${isNew
      ? html`<label>Key <span class="dim">(bytes that are no ASCII as \\xNN)</span><input id="row-key" class="mono" value=${name} onInput=${(event) => setName(event.target.value)} /></label>`
      : html`<p class="mono cut" id="row-key">${printable(key)} <${Copy} text=${printable(key)} /></p>`}
    <${Text} id="row-value" label="Value" rows=${12} value=${written} onInput=${edit} onSave=${save} />
    <div class="row">
      <button class="main" id="save" disabled=${busy || (!isNew && edited === null)} onClick=${save}>${isNew ? "Create" : "Save"}</button>
      ${!isNew && html`<button class="danger" id="delete" onClick=${remove}>Delete</button>`}
    </div>
    <${Problem} error=${error} />
    ${!isNew && html`<${History} database=${database} layer="keyvalue" prefix=${percentEncoded(key)} read=${changeOf(key)} />`}
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} />`;
}

const valueOf = ({ key, value }) => ({ key: printable(key), value: printable(value) });

function Rows({ database, prefix, open }) {
  const [search, setSearch] = useState("");
  const [found, set] = useState({ rows: [], begin: null });
  const [act, { busy, error }] = useAct();
  const turn = useRef(0);
  const range = () => {
    const wanted = concat(prefix, fromPrintable(search));
    return [wanted, behind(wanted)];
  };
  const load = (begin, before) => {
    const mine = ++turn.current;
    return act(async () => {
      const [first, end] = range();
      const page = await read(database, begin ?? first, end, PAGE);
      if (mine !== turn.current) return;
      set({ rows: [...before, ...page.rows], begin: page.more ? next(page.rows.at(-1).key) : null });
    });
  };
  const reload = () => load(null, []);
  const hex = toHex(prefix);
  useEffect(() => void reload(), [database, hex]);
  /** Gives `each` every page of the range, until that says `false`. */
  const pages = async (each) => {
    let [begin, end] = range();
    while (true) {
      const page = await read(database, begin, end, WALK);
      if ((await each(page.rows)) === false || !page.more) return;
      begin = next(page.rows.at(-1).key);
    }
  };
  const countAll = async () => {
    let number = 0;
    await pages((rows) => void (number += rows.length));
    return number;
  };
  const exportAll = (each) => pages((rows) => each(rows.map(valueOf)));
  const removeRows = async (rows) => {
    for (let index = 0; index < rows.length; index += WALK) await write(database, ...rows.slice(index, index + WALK).map(({ id }) => ({ clear: toBase64(fromHex(id)) })));
  };
  const removeAll = async () => {
    const [begin, end] = range();
    await write(database, { clear_range: [toBase64(begin), toBase64(end)] });
  };
  const rows = found.rows.map(({ key, value }) => ({
    id: toHex(key),
    href: link("keyvalue", database, hex, toHex(key)),
    value: valueOf({ key, value }),
    cells: [asTuple(key.slice(prefix.length)) ?? printable(key.slice(prefix.length)), printable(value.slice(0, CUT)), count(value.length)],
  }));
  const changed = (key) => {
    reload();
    noteChange();
    go("keyvalue", database, hex, ...(key === null ? [] : [toHex(key)]));
  };
  return html`<div class=${open ? "split" : "split alone"}>
    <section aria-label="Rows">
      <h2>${prefix.length === 0 ? "All keys" : html`Keys that begin with <code>${printable(prefix)}</code>`}</h2>
      <form class="row" role="search" onSubmit=${(event) => { event.preventDefault(); reload(); }}>
        <input class="grow mono" id="search" aria-label="Begin with" placeholder="begin with … (\\xNN for bytes)" value=${search} onInput=${(event) => setSearch(event.target.value)} />
        <button class="main" disabled=${busy}>Read</button>
        <a class="button" id="new-row" href=${link("keyvalue", database, hex, "new")}>New key</a>
        <a class="button" href=${link("tail", database, "keyvalue", printable(prefix))}>Watch</a>
      </form>
      <${Grid} id="rows" columns=${["key", "value", "bytes"]} rows=${rows} openId=${open} hasMore=${found.begin !== null} busy=${busy} error=${error} onMore=${() => load(found.begin, found.rows)}
        what="keys" exportName="rows" exportAll=${exportAll} removeRows=${removeRows} countAll=${countAll} removeAll=${removeAll} onRemoved=${() => changed(null)} />
    </section>
    ${open && html`<section class="panel" aria-label="Row"><${Row} key=${open} database=${database} prefix=${prefix} hex=${open} onChanged=${changed} /></section>`}
  </div>`;
}

export function KeyValue({ database, parts, session }) {
  const [hex = "", open] = parts;
  const isServed = session.databases.find((each) => each.name === database)?.keyvalue;
  if (!isServed) return html`<p>This session has no credential for the key-value layer in <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;
  return html`<${Rows} key=${hex} database=${database} prefix=${fromHex(hex)} open=${open} />`;
}
