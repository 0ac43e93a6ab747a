// Searches in one index of a Redis database: what they find, how they are read, and what their steps took.

import { html, useCallback, useState } from "./html.js";
import * as api from "./api.js";
import { asMap, count, identity, shown, splitLine } from "./bytes.js";
import { CompletedLine } from "./completion.js";
import { Nearest, nearestDocuments } from "./neighbours.js";
import { Busy, Problem, link, useAct } from "./ui.js";

const SHOWN = 20;
/** What stands around a word that was found: signs that no text has, so that it can be marked without markup made of text. */
const MARKS = ["\u0001", "\u0002"];

/** A text whose found words are marked. */
function Marked({ text }) {
  const pieces = shown(text).split(MARKS[0]);
  return pieces.map((piece, index) => {
    if (index === 0) return piece;
    const [word, rest = ""] = piece.split(MARKS[1]);
    return html`<mark key=${index}>${word}</mark>${rest}`;
  });
}

const has = (words, name) => words.some((word) => typeof word === "string" && word.toUpperCase() === name);

/** Hits with their scores, and the names of all fields that they have. */
async function searched(database, index, query, options) {
  const words = splitLine(options);
  const isText = index.fields.some(({ type }) => type === "TEXT");
  const added = [
    "WITHSCORES",
    ...(isText && !has(words, "HIGHLIGHT") ? ["HIGHLIGHT", "TAGS", ...MARKS] : []),
    ...(has(words, "LIMIT") ? [] : ["LIMIT", "0", String(SHOWN)]),
  ];
  const reply = await api.redis(database, "FT.SEARCH", index.name, query, ...words, ...added);
  const hits = [];
  const step = has(words, "NOCONTENT") ? 2 : 3;
  for (let at = 1; at < reply.length; at += step) hits.push({ key: reply[at], score: Number(reply[at + 1]), fields: asMap(reply[at + 2] && step === 3 ? reply[at + 2] : []) });
  const columns = [...new Set(hits.flatMap(({ fields }) => [...fields.keys()]))];
  return { total: reply[0], hits, columns };
}

/** How a condition on a field of each type begins. */
const BEGINS = { NUMERIC: "[", GEO: "[", TAG: "{", GEOSHAPE: "[" };
const OPTIONS = [
  ..."DIALECT EXPLAINSCORE FILTER GEOFILTER HIGHLIGHT INFIELDS INKEYS INORDER LANGUAGE LIMIT NOCONTENT NOSTOPWORDS PARAMS RETURN SCORER SLOP SORTBY SUMMARIZE TIMEOUT VERBATIM".split(" "),
  ..."ADDSCORES APPLY AS ASC DESC GROUPBY LOAD MAX REDUCE".split(" "),
];
const REDUCERS = "AVG COUNT COUNT_DISTINCT COUNT_DISTINCTISH FIRST_VALUE MAX MIN QUANTILE RANDOM_SAMPLE STDDEV SUM TOLIST".split(" ");
/** Functions of APPLY and FILTER. */
const FUNCTIONS = [
  ..."abs ceil exists exp floor format geodistance log log2 lower parsetime split sqrt startswith contains strlen substr timefmt to_number to_str upper".split(" "),
  ..."case day dayofmonth dayofweek dayofyear hour minute month monthofyear year".split(" "),
].map((name) => name + "(");

const conditionsOf = (index) => index.fields.filter(({ type }) => type !== "VECTOR").map(({ name, type }) => `@${shown(name)}:${BEGINS[type] ?? ""}`);
const wordsOf = (index) => [...OPTIONS, ...REDUCERS, ...FUNCTIONS, ...index.fields.map(({ name }) => "@" + shown(name))];

/** Rows of an aggregation, and the names of all columns that they have. */
async function aggregated(database, index, query, options) {
  const given = splitLine(options);
  const reply = await api.redis(database, "FT.AGGREGATE", index.name, query, ...given, ...(has(given, "LIMIT") ? [] : ["LIMIT", "0", String(SHOWN)]));
  const rows = reply.slice(1).map(asMap);
  return { rows, columns: [...new Set(rows.flatMap((row) => [...row.keys()]))] };
}

function Rows({ aggregate }) {
  const cell = (value) => (Array.isArray(value) ? value.map(shown).join(", ") : shown(value));
  return html`<p class="dim" role="status">${count(aggregate.rows.length)} rows</p>
    <div class="scroll"><table id="rows">
      <thead><tr>${aggregate.columns.map((column) => html`<th key=${shown(column)}>${shown(column)}</th>`)}</tr></thead>
      <tbody>${aggregate.rows.map((row, index) => html`<tr key=${index}>${aggregate.columns.map((column) => html`<td key=${shown(column)} class="mono cut">${row.has(column) && cell(row.get(column))}</td>`)}</tr>`)}</tbody>
    </table></div>`;
}

function Hits({ database, index, found }) {
  const [neighbours, setNeighbours] = useState(null);
  const [act, { error }] = useAct();
  const vectors = index.on === "HASH" ? index.fields.filter(({ type }) => type === "VECTOR") : [];
  const choose = (field, key) => act(async () => setNeighbours({ field, of: key, nearest: await nearestDocuments(database, index, field, key) }));
  return html`<p class="dim" id="total" role="status">${count(found.total)} found, ${count(found.hits.length)} shown</p>
    <div class="scroll"><table id="hits">
      <thead><tr><th>key</th><th>score</th>${found.columns.map((column) => html`<th key=${shown(column)}>${shown(column)}</th>`)}</tr></thead>
      <tbody>${found.hits.map(({ key, score, fields }) => html`<tr key=${identity(key)}>
        <td class="mono"><a class="key" href=${link("redis", database, shown(key), shown(key))}>${shown(key)}</a></td><td>${Number(score.toPrecision(6))}</td>
        ${found.columns.map((column) => html`<td key=${shown(column)} class="mono cut">${fields.has(column) && html`<${Marked} text=${fields.get(column)} />`}</td>`)}
        ${vectors.map((field) => html`<td key=${"near " + field.name}><button type="button" class="small" aria-label=${`Neighbours of ${shown(key)} by ${field.name}`} onClick=${() => choose(field, key)}>Neighbours by ${field.name}</button></td>`)}
      </tr>`)}</tbody>
    </table></div>
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
  const title = ["Type", "Query type", "Term"].filter((name) => facts.has(name)).map((name) => shown(facts.get(name))).join(" ");
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
      <${CompletedLine} id="query" label="Query" value=${query} onInput=${setQuery} load=${loadConditions} wordBefore=${/(@[^\s:@|(){}[\]"]*)$/} />
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
