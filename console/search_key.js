// An index of `redis.search`, which is a key: what it holds, and filters and aggregations in JSON.

import { html, useCallback, useState } from "./html.js";
import * as api from "./api.js";
import { asMap, count, identity, quoted, shown, size, splitLine } from "./bytes.js";
import { CompletedLine } from "./completion.js";
import { rendered } from "./pad_redis.js";
import { Hits, MARKS, has, hitsOf } from "./search_pad.js";
import { Busy, Problem, useAct, useLoaded } from "./ui.js";

const SHOWN = 20;
const OPERATORS = "$eq $in $gt $gte $lt $lte $smart $phrase $fuzzy $regex $boost $must $and $should $or $mustNot".split(" ");
const AGGREGATIONS = "$terms $range $histogram $dateHistogram $facet $avg $sum $min $max $count $stats $extendedStats $percentiles $cardinality $aggs field".split(" ");
const OPTIONS = "LIMIT OFFSET ORDERBY SELECT NOCONTENT HIGHLIGHT FIELDS SCOREFUNC ASC DESC".split(" ");
/** A name that is begun within quotes. */
const IN_QUOTES = /("[^"\s:]*)$/;

/** What SEARCH.DESCRIBE says. */
export function describedKey(reply) {
  const about = asMap(reply);
  return {
    name: about.get("name"),
    on: about.get("type"),
    prefixes: about.get("prefixes"),
    documents: Number(about.get("documents")),
    bytes: Number(about.get("indexSize")),
    isFilling: Number(about.get("pendingUpdates")) > 0,
    fields: about.get("schema").map(([name, type, ...options]) => ({ name, path: name, type, options })),
  };
}

async function searched(database, index, filter, options) {
  const words = splitLine(options);
  const isPlain = !has(words, "SELECT") && !has(words, "NOCONTENT") && !has(words, "HIGHLIGHT");
  const texts = index.fields.filter(({ type }) => type === "TEXT").map(({ name }) => name);
  const all = index.fields.map(({ name }) => name);
  const added = [
    ...(has(words, "LIMIT") ? [] : ["LIMIT", String(SHOWN)]),
    ...(isPlain && all.length > 0 ? ["SELECT", String(all.length), ...all] : []),
    ...(isPlain && texts.length > 0 ? ["HIGHLIGHT", "FIELDS", String(texts.length), ...texts, "TAGS", ...MARKS] : []),
  ];
  const [total, found] = await api.redisAll(database, [["SEARCH.COUNT", index.name, filter], ["SEARCH.QUERY", index.name, filter, ...words, ...added]]);
  const error = found.error ?? total.error;
  if (error !== undefined) throw new Error(error);
  if (total.result < 0) throw new Error("there is no such index");
  const hits = found.result.map(([key, score, fields = []]) => ({ key, score: Number(score), fields: new Map(fields) }));
  return { total: total.result, ...hitsOf(index, hits) };
}

/** The fields of such an index. */
function Fields({ index }) {
  return html`<h3>Fields</h3><div class="scroll"><table id="fields" class="lines">
    <thead><tr><th>field</th><th>type</th><th>options</th></tr></thead>
    <tbody>${index.fields.map(({ name, type, options }) => html`<tr key=${identity(name)}><td class="mono">${shown(name)}</td><td>${type}</td><td class="mono">${options.map(shown).join(" ")}</td></tr>`)}</tbody>
  </table></div>`;
}

function Searches({ database, index }) {
  const [filter, setFilter] = useState("{}");
  const [options, setOptions] = useState("");
  const [aggregations, setAggregations] = useState("");
  const [outcome, setOutcome] = useState(null);
  const [act, { busy, error }] = useAct();
  const run = (load) => act(async () => {
    setOutcome(null);
    setOutcome(await load());
  });
  const search = (event) => {
    event.preventDefault();
    run(async () => ({ found: await searched(database, index, filter, options) }));
  };
  const aggregate = () => run(async () => ({ figures: rendered(await api.redis(database, "SEARCH.AGGREGATE", index.name, filter, aggregations)) }));
  const load = (words) => () => [...index.fields.map(({ name }) => shown(name)), ...words].map((word) => `"${word}"`);
  const loadFilter = useCallback(load(OPERATORS), [index]);
  const loadAggregations = useCallback(load(AGGREGATIONS), [index]);
  const loadOptions = useCallback(() => [...OPTIONS, ...index.fields.map(({ name }) => shown(name))], [index]);
  return html`<form onSubmit=${search}>
      <${CompletedLine} id="query" label="Filter" placeholder=${'{"name": "running shoes"}'} value=${filter} onInput=${setFilter} load=${loadFilter} wordBefore=${IN_QUOTES} />
      <${CompletedLine} id="options" label="Options" placeholder="ORDERBY price ASC LIMIT 50" value=${options} onInput=${setOptions} load=${loadOptions} wordBefore=${/([A-Za-z_0-9.]+)$/} />
      <${CompletedLine} id="aggregations" label="Aggregations" placeholder=${'{"brands": {"$terms": {"field": "brand"}}}'} value=${aggregations} onInput=${setAggregations} load=${loadAggregations} wordBefore=${IN_QUOTES} />
      <div class="row">
        <button class="main" id="run" disabled=${busy}>Search</button>
        <button type="button" id="aggregate" disabled=${busy || aggregations.trim() === ""} onClick=${aggregate}>Aggregate</button>
        <span class="dim">Tab completes fields and operators</span>
        <${Busy} when=${busy} />
      </div>
    </form>
    <${Problem} error=${error} />
    ${outcome?.found && html`<${Hits} database=${database} index=${index} found=${outcome.found} />`}
    ${outcome?.figures && html`<pre id="figures">${outcome.figures}</pre>`}`;
}

export function SearchKey({ database, name }) {
  const { value: index, error } = useLoaded(async () => describedKey(await api.redis(database, "SEARCH.DESCRIBE", name)), [database, name]);
  if (error) return html`<${Problem} error=${error} />`;
  if (!index) return html`<${Busy} />`;
  return html`<p class="dim" id="index-facts">${index.on}, ${index.prefixes.map(quoted).join(" ")} · ${count(index.documents)} documents · ${size(index.bytes)} · ${index.isFilling ? "being filled" : "filled"}</p>
    <${Searches} database=${database} index=${index} />
    <${Fields} index=${index} />`;
}
