// Searches in one index of a Redis database: hits, how a query is read, and how long its steps took.

import { html, useCallback, useState } from "./html.js";
import * as api from "./api.js";
import { asMap, count, escapedName, identity, shown, splitLine, toBytes } from "./bytes.js";
import { CompletedLine } from "./completion.js";
import { Nearest, nearestDocuments, vectorType } from "./neighbours.js";
import { Busy, Problem, link, useAct } from "./ui.js";
import { decoded } from "./vectors.js";

const SHOWN = 20;
/** Signs around a word that was found. No text has them, so no markup is made of text. */
export const MARKS = ["\u0001", "\u0002"];
/** Fields that have columns; a document may have thousands. */
const COLUMNS_MAX = 40;
/** Signs of a value that a cell has, and those before its first mark: a cell shows one line. */
const EXCERPT = 500;
const BEFORE_MARK = 30;
/** Numbers of a vector that a cell has. */
const COMPONENTS = 3;

/** The part of a text that has its first mark. */
function excerpt(text) {
  const from = Math.max(0, text.indexOf(MARKS[0]) - BEFORE_MARK);
  return (from > 0 ? "…" : "") + text.slice(from, from + EXCERPT) + (from + EXCERPT < text.length ? "…" : "");
}

/** A text whose found words are marked. */
function Marked({ text }) {
  const part = text instanceof Uint8Array ? shown(text.subarray(0, EXCERPT)) : excerpt(shown(text));
  const pieces = part.split(MARKS[0]);
  return pieces.map((piece, index) => {
    if (index === 0) return piece;
    const [word, rest = ""] = piece.split(MARKS[1]);
    return html`<mark key=${index}>${word}</mark>${rest}`;
  });
}

/** The bytes of a vector as its first numbers. */
function Vector({ word, type }) {
  const found = decoded(toBytes(word), type, COMPONENTS);
  if (found === null) return html`<${Marked} text=${word} />`;
  return `${found.first.map((number) => Number(number.toPrecision(4))).join(", ")}${found.total > COMPONENTS ? ", …" : ""} (${count(found.total)})`;
}

export const has = (words, name) => words.some((word) => typeof word === "string" && word.toUpperCase() === name);

/**
 * Hits with the columns that their fields make, those first that are indexed.
 * A name may be bytes, so values are found by its identity.
 */
export function hitsOf(index, hits) {
  const known = new Set(index.fields.flatMap(({ name, path }) => [identity(name), identity(path)]));
  const names = new Map(hits.flatMap(({ fields }) => Array.from(fields.keys(), (name) => [identity(name), name])));
  const columns = Array.from(names, ([id, name]) => ({ id, name, isIndexed: known.has(id) }));
  const byIdentity = (fields) => new Map(Array.from(fields, ([name, value]) => [identity(name), value]));
  return { hits: hits.map((hit) => ({ ...hit, fields: byIdentity(hit.fields) })), columns: columns.sort((a, b) => b.isIndexed - a.isIndexed) };
}

/** Hits with their scores, and the names of the fields that they have. */
async function searched(database, index, query, options) {
  const words = splitLine(options);
  const isText = index.fields.some(({ type }) => type === "TEXT");
  const columnsOfJson = index.on === "JSON" && !query.includes("=>") && !has(words, "RETURN") ? index.fields.filter(({ type }) => type !== "VECTOR").map(({ name }) => name) : [];
  const added = [
    "WITHSCORES",
    ...(isText && !has(words, "HIGHLIGHT") ? ["HIGHLIGHT", "TAGS", ...MARKS] : []),
    ...(has(words, "LIMIT") ? [] : ["LIMIT", "0", String(SHOWN)]),
    ...(columnsOfJson.length > 0 ? ["RETURN", String(columnsOfJson.length), ...columnsOfJson] : []),
  ];
  const reply = await api.redis(database, "FT.SEARCH", index.name, query, ...words, ...added);
  const hits = [];
  // A key, its score, its payload and sort key if the options say so, and mostly its fields.
  const between = ["WITHPAYLOADS", "WITHSORTKEYS"].filter((name) => has(words, name)).length;
  const hasFields = !has(words, "NOCONTENT") && reply.slice(1).some(Array.isArray);
  for (let at = 1; at < reply.length; at += 2 + between + (hasFields ? 1 : 0)) {
    const [score, why] = has(words, "EXPLAINSCORE") ? reply[at + 1] : [reply[at + 1]];
    const fields = hasFields ? asMap(reply[at + 2 + between] ?? []) : new Map();
    hits.push({ key: reply[at], score: Number(score), why, fields });
  }
  return { total: reply[0], ...hitsOf(index, hits) };
}

/** How a condition on a field of each type begins. */
const BEGINS = { NUMERIC: "[", GEO: "[", TAG: "{", GEOSHAPE: "[" };
const OPTIONS = [
  ..."DIALECT EXPLAINSCORE FILTER GEOFILTER HIGHLIGHT INFIELDS INKEYS INORDER LANGUAGE LIMIT NOCONTENT NOSTOPWORDS PARAMS RETURN SCORER SLOP SORTBY SUMMARIZE TIMEOUT VERBATIM WITHPAYLOADS WITHSORTKEYS".split(" "),
  ..."ADDSCORES APPLY AS ASC COUNT DESC GROUPBY LOAD MAX REDUCE WITHCURSOR".split(" "),
];
const REDUCERS = "AVG COUNT COUNT_DISTINCT COUNT_DISTINCTISH FIRST_VALUE MAX MIN QUANTILE RANDOM_SAMPLE STDDEV SUM TOLIST".split(" ");
/** Functions of APPLY and FILTER. */
const FUNCTIONS = [
  ..."abs ceil exists exp floor format geodistance log log2 lower parsetime split sqrt startswith contains strlen substr timefmt to_number to_str upper".split(" "),
  ..."case day dayofmonth dayofweek dayofyear hour minute month monthofyear year".split(" "),
].map((name) => name + "(");

const conditionsOf = (index) => ["ismissing(@", ...index.fields.map(({ name, type }) => "@" + escapedName(name) + (type === "VECTOR" ? "" : ":" + (BEGINS[type] ?? "")))];
const wordsOf = (index) => [...OPTIONS, ...REDUCERS, ...FUNCTIONS, ...index.fields.map(({ name }) => "@" + shown(name))];

/** Rows of an aggregation, and the names of all columns that they have. */
async function aggregated(database, index, query, options) {
  const given = splitLine(options);
  const reply = await api.redis(database, "FT.AGGREGATE", index.name, query, ...given, ...(has(given, "LIMIT") ? [] : ["LIMIT", "0", String(SHOWN)]));
  const rows = (has(given, "WITHCURSOR") ? reply[0] : reply).slice(1).map(asMap);
  return { rows, columns: [...new Set(rows.flatMap((row) => [...row.keys()]))] };
}

const withoutMore = ({ length }) => (length > COLUMNS_MAX ? `, without ${count(length - COLUMNS_MAX)} more fields` : "");

function Rows({ aggregate }) {
  const cell = (value) => excerpt(Array.isArray(value) ? value.map(shown).join(", ") : shown(value));
  const columns = aggregate.columns.slice(0, COLUMNS_MAX);
  return html`<p class="dim" role="status">${count(aggregate.rows.length)} rows${withoutMore(aggregate.columns)}</p>
    <div class="scroll"><table id="rows" class="lines">
      <thead><tr>${columns.map((column) => html`<th key=${shown(column)}>${shown(column)}</th>`)}</tr></thead>
      <tbody>${aggregate.rows.map((row, index) => html`<tr key=${index}>${columns.map((column) => html`<td key=${shown(column)} class="mono">${row.has(column) && cell(row.get(column))}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}

/** Why a score is what it is: a text, or a text with those that it consists of. */
function Why({ why }) {
  const [text, parts = []] = Array.isArray(why) ? why : [why];
  return html`<li>${shown(text)}${parts.length > 0 && html`<ul class="why">${parts.map((part, index) => html`<${Why} key=${index} why=${part} />`)}</ul>`}</li>`;
}

function Hit({ database, index, hit, columns, vectors, onChoose }) {
  const { key, score, why, fields } = hit;
  // An entry of a stream is found there.
  const place = index.on === "STREAM" ? index.prefixes[0] : key;
  const value = ({ id, name }) => {
    const field = vectors.find((field) => index.on === "HASH" && shown(field.path) === shown(name));
    return field ? html`<${Vector} word=${fields.get(id)} type=${vectorType(field)} />` : html`<${Marked} text=${fields.get(id)} />`;
  };
  return html`<tr>
    <td class="mono"><a class="key" href=${link("redis", database, shown(place), shown(place))}>${shown(key)}</a></td>
    <td>${Number(score.toPrecision(6))}${why !== undefined && html`<details><summary>why</summary><ul class="why"><${Why} why=${why} /></ul></details>`}</td>
    ${vectors.map((field) => html`<td key=${"near " + field.name}><button type="button" class="small" aria-label=${`Neighbours of ${shown(key)} by ${shown(field.name)}`} onClick=${() => onChoose(field, key)}>Neighbours by ${shown(field.name)}</button></td>`)}
    ${columns.map((column) => html`<td key=${column.id} class="mono">${fields.has(column.id) && value(column)}</td>`)}
  </tr>`;
}

export function Hits({ database, index, found }) {
  const [neighbours, setNeighbours] = useState(null);
  const [act, { error }] = useAct();
  const vectors = index.fields.filter(({ type }) => type === "VECTOR");
  const columns = found.columns.slice(0, COLUMNS_MAX);
  const choose = (field, key) => act(async () => setNeighbours({ field, of: key, nearest: await nearestDocuments(database, index, field, key) }));
  return html`<p class="dim" id="total" role="status">${count(found.total)} found, ${count(found.hits.length)} shown${withoutMore(found.columns)}</p>
    <div class="scroll"><table id="hits" class="lines">
      <thead><tr><th>key</th><th>score</th>${vectors.map((field) => html`<th key=${"near " + field.name}></th>`)}${columns.map(({ id, name }) => html`<th key=${id}>${shown(name)}</th>`)}</tr></thead>
      <tbody>${found.hits.map((hit) => html`<${Hit} key=${identity(hit.key)} database=${database} index=${index} hit=${hit} columns=${columns} vectors=${vectors} onChoose=${choose} />`)}</tbody>
    </table></div>
    <p class="dim">This is the present: an index has no history. A key shows what it was below <i>As it was</i>.</p>
    <${Problem} error=${error} />
    ${neighbours && html`<${Nearest} of=${neighbours.of} nearest=${neighbours.nearest} measure="distance" onChoose=${(key) => choose(neighbours.field, key)} />`}`;
}

/** A condition as FT.PROFILE has it, with those below it. */
function stepOf(list) {
  const facts = asMap(list);
  const below = facts.has("Child iterator") ? [facts.get("Child iterator")] : facts.get("Child iterators") ?? [];
  return { facts, below: below.map(stepOf) };
}

function Step({ step }) {
  const { facts, below } = step;
  const title = [...new Set(["Type", "Query type", "Term"].filter((name) => facts.has(name)).map((name) => shown(facts.get(name))))].join(" ");
  return html`<li><b>${title}</b> ${Number(facts.get("Time"))} ms, ${count(facts.get("Number of reading operations"))} given
    ${below.length > 0 && html`<ul>${below.map((step, index) => html`<${Step} key=${index} step=${step} />`)}</ul>`}</li>`;
}

function profiled(reply) {
  const [shard] = asMap(reply[1]).get("Shards").map(asMap);
  return { total: shard.get("Total profile time"), parsing: shard.get("Parsing time"), root: stepOf(shard.get("Iterators profile")), stages: shard.get("Result processors profile").map(asMap) };
}

function Profile({ profile }) {
  return html`<div id="profile"><p>${Number(profile.total)} ms, of which ${Number(profile.parsing)} ms to read the query</p>
    <ul><${Step} step=${profile.root} /></ul>
    <ol>${profile.stages.map((stage, index) => html`<li key=${index}><b>${stage.get("Type")}</b> ${Number(stage.get("Time"))} ms, ${count(stage.get("Results processed"))} given</li>`)}</ol></div>`;
}

export function SearchPad({ database, index }) {
  const [query, setQuery] = useState("*");
  const [options, setOptions] = useState("");
  const [outcome, setOutcome] = useState(null);
  const [act, { busy, error }] = useAct();
  const run = (load) => act(async () => {
    setOutcome(null);
    setOutcome(await load());
  });
  const search = () => run(async () => ({ found: await searched(database, index, query, options) }));
  const explain = () => run(async () => ({ explained: shown(await api.redis(database, "FT.EXPLAIN", index.name, query, ...splitLine(options))) }));
  const aggregate = () => run(async () => ({ aggregate: await aggregated(database, index, query, options) }));
  const profile = () => run(async () => ({ profile: profiled(await api.redis(database, "FT.PROFILE", index.name, "SEARCH", "QUERY", query, ...splitLine(options))) }));
  const submit = (event) => {
    event.preventDefault();
    search();
  };
  const loadConditions = useCallback(() => conditionsOf(index), [index]);
  const loadWords = useCallback(() => wordsOf(index), [index]);
  return html`<form onSubmit=${submit}>
      <${CompletedLine} id="query" label="Query" value=${query} onInput=${setQuery} load=${loadConditions} wordBefore=${/(@[^\s:@|(){}[\]"]*|[A-Za-z]+)$/} />
      <${CompletedLine} id="options" label="Options" placeholder="SORTBY price LIMIT 0 50" value=${options} onInput=${setOptions} load=${loadWords} wordBefore=${/(@?[A-Za-z_0-9.]+|@)$/} />
      <div class="row">
        <button class="main" id="run" disabled=${busy}>Search</button>
        <button type="button" disabled=${busy} onClick=${aggregate}>Aggregate</button>
        <button type="button" disabled=${busy} onClick=${explain}>Explain</button>
        <button type="button" disabled=${busy} onClick=${profile}>Profile</button>
        <span class="dim">Tab completes fields and functions</span>
        <${Busy} when=${busy} />
      </div>
    </form>
    <${Problem} error=${error} />
    ${outcome?.found && html`<${Hits} database=${database} index=${index} found=${outcome.found} />`}
    ${outcome?.aggregate && html`<${Rows} aggregate=${outcome.aggregate} />`}
    ${outcome?.explained && html`<pre id="explained">${outcome.explained}</pre>`}
    ${outcome?.profile && html`<${Profile} profile=${outcome.profile} />`}`;
}
