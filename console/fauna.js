// FaunaDB in the console: documents as they are and as they were, sets of indexes, and what the schema holds.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { Digits } from "./exact.js";
import { shownExpression, shownValue, toWire } from "./fql.js";
import { Busy, Confirm, Copy, Problem, Text, go, link, noteChange, useAct, useLoaded } from "./ui.js";
import { Grid } from "./grid.js";

const PAGE = 50;

/** What stands behind the secret to be the admin of a database below. */
export const roleOf = (path) => (path ? `${path}:admin` : "");

/** The wire's words for the kinds of the schema: one, and all of them. */
export const KINDS = {
  collection: ["collection", "collections", "Collection"],
  index: ["index", "indexes", "Index"],
  function: ["function", "functions", "Function"],
  role: ["role", "roles", "Role"],
  database: ["database", "databases", "Database"],
};

const object = (fields) => ({ object: fields });
const variable = (name) => ({ var: name });
const documents = (name) => ({ documents: { collection: name } });
/** An expression as it was at a time; `at` is null for now, or microseconds. */
const asOf = (at, expression) => (at === null ? expression : { at: { epoch: at, unit: "microseconds" }, expr: expression });

/** The names of a kind, a page after the other up to a thousand. */
export async function names(database, path, kind) {
  const { value } = await api.fauna(database, { paginate: { [KINDS[kind][1]]: null }, size: 1000 }, roleOf(path));
  return value.data.map((ref) => ref["@ref"].id);
}

/** Cursors come back as values and go as expressions. */
export function expressionOf(value) {
  if (Array.isArray(value)) return value.map(expressionOf);
  if (value === null || typeof value !== "object" || value instanceof Digits) return value;
  const keys = Object.keys(value);
  if (keys.length === 1 && keys[0].startsWith("@") && keys[0] !== "@obj") return value;
  return object(Object.fromEntries(Object.entries(value["@obj"] ?? value).map(([key, inner]) => [key, expressionOf(inner)])));
}

const summary = (data) => {
  const text = shownValue(data ?? null).replace(/\s+/g, " ");
  return text.length > 200 ? text.slice(0, 200) + "…" : text;
};

const time = (micros) => new Date(Number(micros) / 1000).toISOString().replace("T", " ").replace("Z", "");

/** Looks back in time: from the oldest moment of `range` (microseconds) to now. */
function Slider({ range, at, onChange }) {
  const [oldest, newest] = range;
  const [place, setPlace] = useState(1000);
  const waiting = useRef();
  const move = (event) => {
    const next = Number(event.target.value);
    setPlace(next);
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => onChange(next >= 1000 ? null : Math.round(oldest + ((newest - oldest) * next) / 1000)), 150);
  };
  const moment = place >= 1000 ? "now" : time(oldest + ((newest - oldest) * place) / 1000) + " UTC";
  return html`<label>As of <b id="as-of">${moment}</b>${at !== null && html` <span class="dim">(read only)</span>`}
    <input id="slider" type="range" min="0" max="1000" value=${place} onInput=${move} aria-valuetext=${moment} />
  </label>`;
}

/** How long ago history may begin: documents of a collection keep it for so many days. */
async function historyOf(database, path, name) {
  const { value } = await api.fauna(database, { get: { collection: name } }, roleOf(path));
  const now = Date.now() * 1000;
  const days = value.history_days;
  const kept = days === null || days === undefined ? 30 : Number(days);
  const since = Math.max(Number(value.ts), now - kept * 86_400_000_000);
  return [since, now + 1];
}

function Collection({ database, path, name, id }) {
  const [at, setAt] = useState(null);
  const [search, setSearch] = useState("");
  const [found, setFound] = useState({ rows: [], after: null });
  const [act, { busy, error }] = useAct();
  const role = roleOf(path);
  const turn = useRef(0);
  const { value: range } = useLoaded(() => historyOf(database, path, name), [database, path, name]);

  const load = (after, before) => {
    const mine = ++turn.current;
    return act(async () => {
      const page = { paginate: documents(name), size: PAGE, ...(after ? { after: expressionOf(after) } : {}) };
      const query = asOf(at, { map: { lambda: "ref", expr: { get: variable("ref") } }, collection: page });
      const { value } = await api.fauna(database, query, role);
      if (mine !== turn.current) return;
      const rows = value.data.map((document) => {
        const own = document.ref["@ref"].id;
        return { id: own, ref: document.ref, href: link("fauna", database, path, "collection", name, own), value: document, cells: [own, time(document.ts), summary(document.data)] };
      });
      setFound({ rows: [...before, ...rows], after: value.after ?? null });
    });
  };
  const reload = () => load(null, []);
  useEffect(() => void reload(), [database, path, name, at]);

  const removeRows = async (rows) => {
    await api.fauna(database, { foreach: { lambda: "ref", expr: { delete: variable("ref") } }, collection: rows.map((row) => row.ref) }, role);
  };
  const countAll = async () => (await api.fauna(database, { count: documents(name) }, role)).value;
  const removeAll = async (tell, isOver) => {
    let deleted = 0;
    while (!isOver()) {
      const query = { let: [{ page: { paginate: documents(name), size: 100 } }], in: { do: [{ foreach: { lambda: "ref", expr: { delete: variable("ref") } }, collection: variable("page") }, { count: { select: ["data"], from: variable("page") } }] } };
      const { value } = await api.fauna(database, query, role);
      if (Number(value) === 0) return;
      tell((deleted += Number(value)));
    }
  };
  const rows = found.rows.filter((row) => search === "" || row.cells.join(" ").toLowerCase().includes(search.toLowerCase()));
  return html`<div class=${id === undefined ? "split alone" : "split"}>
    <section aria-label="Documents">
      <h2>${name}</h2>
      <form class="row" role="search" onSubmit=${(event) => { event.preventDefault(); if (/^\d+$/.test(search)) go("fauna", database, path, "collection", name, search); }}>
        <input class="grow" id="search" type="search" placeholder="search what is shown, or open by id" aria-label="Search documents" value=${search} onInput=${(event) => setSearch(event.target.value)} />
        <button type="button" onClick=${reload} disabled=${busy}>Refresh</button>
        <a class="button" id="new-document" href=${link("fauna", database, path, "collection", name, "new")}>New document</a>
        <a class="button" href=${link("tail", database, "fauna", path, shownExpression(documents(name)))}>Watch</a>
        <a class="button" href=${link("fauna", database, path, "schema", "collection", name)}>Definition</a>
      </form>
      ${range && html`<${Slider} range=${range} at=${at} onChange=${setAt} />`}
      <${Grid} id="documents" columns=${["id", "changed", "data"]} rows=${rows} openId=${id} hasMore=${found.after !== null} busy=${busy} error=${error} onMore=${() => load(found.after, found.rows)}
        what="documents" exportName=${name} removeRows=${at === null ? removeRows : undefined} countAll=${countAll} removeAll=${removeAll} onRemoved=${reload} />
    </section>
    ${id !== undefined &&
    html`<section class="panel" aria-label="Document">${id === "new"
        ? html`<${NewDocument} database=${database} path=${path} name=${name} onDone=${(made) => { reload(); go("fauna", database, path, "collection", name, made); }} />`
        : html`<${Document} key=${id} database=${database} path=${path} name=${name} id=${id} onChanged=${reload} />`}</section>`}
  </div>`;
}

/** The one expression that somebody typed, with its numbers as they are written. */
function typed(text) {
  const statements = toWire(text, true);
  if (statements.length !== 1) throw new Error("expected one value");
  return statements[0];
}

function NewDocument({ database, path, name, onDone }) {
  const [text, edit] = useState("{\n  \n}");
  const [act, { busy, error }] = useAct();
  const save = () =>
    act(async () => {
      const { value } = await api.fauna(database, { create: { collection: name }, params: object({ data: typed(text) }) }, roleOf(path));
      onDone(value.ref["@ref"].id);
    });
  return html`<h2>New document</h2>
    <${Text} id="document-data" label="Data" rows=${14} value=${text} onInput=${edit} onSave=${save} />
    <${Problem} error=${error} />
    <div class="row end"><button class="main" id="create" disabled=${busy} onClick=${save}>Create</button></div>`;
}

function Document({ database, path, name, id, onChanged }) {
  const role = roleOf(path);
  const ref = { ref: { collection: name }, id };
  const [step, setStep] = useState(null);
  const [edited, edit] = useState(null);
  const [ask, setAsk] = useState(null);
  const [act, { busy, error: saveError }] = useAct();
  const events = useLoaded(async () => {
    const { value } = await api.fauna(database, { paginate: { events: ref }, size: 200 }, role);
    return value.data;
  }, [database, path, name, id]);
  const history = events.value ?? [];
  const event = step === null ? null : history[step];
  const at = event ? Number(event.ts) : null;
  const { value: document, error, loading, reload } = useLoaded(
    () => api.fauna(database, asOf(at, { if: { exists: ref }, then: { get: ref }, else: null }), role).then(({ value }) => value),
    [database, path, name, id, at],
  );
  useEffect(() => edit(null), [at]);
  const text = edited ?? shownValue(document?.data ?? {});
  const changed = () => {
    edit(null);
    setStep(null);
    reload();
    events.reload();
    onChanged();
  };
  const save = () =>
    act(async () => {
      await api.fauna(database, { replace: ref, params: object({ data: typed(text) }) }, role);
      changed();
    });
  const restore = () =>
    act(async () => {
      const data = expressionOf(document.data ?? {});
      const params = object({ data });
      await api.fauna(database, { if: { exists: ref }, then: { replace: ref, params }, else: { create: ref, params } }, role);
      changed();
    });
  const askToDelete = () =>
    setAsk({ title: "Delete this document?", text: `${name} ${id}`, action: "Delete", act: async () => { await api.fauna(database, { delete: ref }, role); changed(); } });
  return html`<h2>${name} / ${id}</h2>
    <div class="row">
      ${document && html`<span class="dim">changed ${time(document.ts)} UTC</span>`}
      ${at === null && document && html`<button class="small danger" id="delete-document" onClick=${askToDelete}>Delete</button>`}
      <a class="button small" href=${link("tail", database, "fauna", path, shownExpression(ref))}>Watch</a>
      <${Copy} text=${text} />
    </div>
    <${Problem} error=${error} />
    ${loading && !document && html`<${Busy} />`}
    ${document === null && html`<p id="absent">${at === null ? "There is no such document." : "It did not exist then."}</p>`}
    ${document && html`<${Text} id="document-data" label="Data" rows=${14} value=${text} readOnly=${at !== null} onInput=${edit} onSave=${save} />
      <div class="row">${at === null
          ? html`<button class="main" id="save" disabled=${busy || edited === null} onClick=${save}>Save</button>`
          : html`<button disabled=${busy} id="restore" onClick=${restore}>Make this the present</button>`}</div>`}
    <${Problem} error=${saveError} />
    <h3>History</h3>
    ${history.length > 0 &&
    html`<label>As of <b id="as-of">${event ? `${time(event.ts)} UTC (${event.action})` : "now"}</b>
      <input id="slider" type="range" min="0" max=${history.length} value=${step ?? history.length} onInput=${(input) => setStep(Number(input.target.value) >= history.length ? null : Number(input.target.value))} />
    </label>
    <ol class="dim">${history.map((each, index) => html`<li key=${index}><button class="small" onClick=${() => setStep(index)}>${time(each.ts)}</button> ${each.action}</li>`)}</ol>`}
    <${Problem} error=${events.error} />
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} />`;
}

function IndexSet({ database, path, name }) {
  const [terms, setTerms] = useState("");
  const [found, setFound] = useState({ rows: [], after: null });
  const [act, { busy, error }] = useAct();
  const definition = useLoaded(() => api.fauna(database, { get: { index: name } }, roleOf(path)).then(({ value }) => value), [database, path, name]);
  const wanted = definition.value?.terms?.length ?? 0;
  const load = (after, before) =>
    act(async () => {
      const given = terms.trim() === "" ? [] : typed(`[${terms}]`);
      const set = { match: { index: name }, terms: given.length === 1 ? given[0] : given };
      const { value } = await api.fauna(database, { paginate: set, size: PAGE, ...(after ? { after: expressionOf(after) } : {}) }, roleOf(path));
      const rows = value.data.map((entry, index) => {
        const ref = [entry].flat().map((part) => part?.["@ref"]).findLast((part) => part?.collection);
        const href = ref && link("fauna", database, path, "collection", (ref.collection["@ref"] ?? ref.collection).id, ref.id);
        return { id: String(before.length + index), href, value: entry, cells: [summary(entry)] };
      });
      setFound({ rows: [...before, ...rows], after: value.after ?? null });
    });
  useEffect(() => {
    setFound({ rows: [], after: null });
    if (definition.value && wanted === 0) load(null, []);
  }, [definition.value]);
  return html`<section>
    <h2>${name}</h2>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); load(null, []); }}>
      ${wanted > 0 && html`<input class="grow mono" id="terms" aria-label="Terms" placeholder=${`${wanted} terms, e.g. "red", 5`} value=${terms} onInput=${(event) => setTerms(event.target.value)} />`}
      <button class="main" disabled=${busy}>Match</button>
      <a class="button" href=${link("fauna", database, path, "schema", "index", name)}>Definition</a>
    </form>
    ${definition.value?.active === false && html`<p class="dim">The index is being built.</p>`}
    <${Grid} id="entries" columns=${["values"]} rows=${found.rows} hasMore=${found.after !== null} busy=${busy} error=${definition.error ?? error} onMore=${() => load(found.after, found.rows)} what="entries" exportName=${name} />
  </section>`;
}

function Schema({ database, path, kind, name }) {
  const [single, , shownKind] = KINDS[kind];
  const reference = { [single]: name };
  const { value, error, loading, reload } = useLoaded(() => api.fauna(database, { get: reference }, roleOf(path)).then(({ value }) => value), [database, path, kind, name]);
  const [edited, edit] = useState(null);
  const [ask, setAsk] = useState(null);
  const [act, { busy, error: saveError }] = useAct();
  if (loading && !value) return html`<${Busy} />`;
  if (error) return html`<${Problem} error=${error} />`;
  const { ref, ts, ...fields } = value;
  const text = edited ?? shownValue(fields);
  const save = () =>
    act(async () => {
      await api.fauna(database, { update: reference, params: typed(text) }, roleOf(path));
      edit(null);
      reload();
    });
  const askToDelete = () =>
    setAsk({
      title: `Delete the ${kind} ${name}?`,
      text: kind === "collection" || kind === "database" ? "Everything in it goes too." : "Requests that use it will fail.",
      word: name,
      action: "Delete",
      act: async () => { await api.fauna(database, { delete: reference }, roleOf(path)); noteChange(); go("fauna", database, path); },
    });
  const below = [path, name].filter(Boolean).join("/");
  return html`<section><h2>${shownKind}(${JSON.stringify(name)})</h2>
    <p class="dim">changed ${time(ts)} UTC ${kind === "database" && html` · <a href=${link("fauna", database, below)}>open it</a>`}</p>
    <${Text} id="definition" label="Definition" rows=${18} value=${text} onInput=${edit} onSave=${save} />
    <div class="row"><button class="main" id="save" disabled=${busy || edited === null} onClick=${save}>Update</button><${Copy} text=${text} />
      <button class="danger" onClick=${askToDelete}>Delete</button></div>
    <${Problem} error=${saveError} />
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} />
  </section>`;
}

const BEGINNINGS = {
  collection: 'CreateCollection({ name: "" })',
  index: 'CreateIndex({\n  name: "",\n  source: Collection(""),\n  terms: [{ field: ["data", ""] }]\n})',
  function: 'CreateFunction({\n  name: "",\n  body: Query(Lambda("x", Var("x")))\n})',
  role: 'CreateRole({\n  name: "",\n  privileges: [{ resource: Collection(""), actions: { read: true } }]\n})',
  database: 'CreateDatabase({ name: "" })',
};

function Overview({ database, path }) {
  return html`<section><h2>FaunaDB ${path && `/ ${path}`}</h2>
    <p>Make a ${Object.entries(BEGINNINGS).map(([kind, text]) => html`<a class="button" key=${kind} href=${link("pad", database, "FQL", text, roleOf(path))}>${kind}</a> `)} or open one in the tree.</p></section>`;
}

export function Fauna({ database, parts, session }) {
  const [path = "", kind, name, id] = parts;
  const here = session.databases.find((each) => each.name === database);
  if (!here?.fauna) return html`<p>This session has no credential for FaunaDB in <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;
  const key = [database, path, kind, name].join("\n");
  if (kind === "collection" && name) return html`<${Collection} key=${key} database=${database} path=${path} name=${name} id=${id} />`;
  if (kind === "index" && name) return html`<${IndexSet} key=${key} database=${database} path=${path} name=${name} />`;
  if (kind === "schema" && name in KINDS && id) return html`<${Schema} key=${key + id} database=${database} path=${path} kind=${name} name=${id} />`;
  return html`<${Overview} database=${database} path=${path} />`;
}
