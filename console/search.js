// Search indexes of a Redis database: what they hold, how far they are filled, and what failed.

import { html, useEffect, useMemo, useRef } from "./html.js";
import * as api from "./api.js";
import { asMap, count, identity, quoted, shown, size } from "./bytes.js";
import { describedKey } from "./search_key.js";
import { SearchPad } from "./search_pad.js";
import { Busy, Problem, link, useLoaded } from "./ui.js";

export async function names(database) {
  const found = await api.redis(database, "FT._LIST");
  return found.sort((a, b) => (shown(a) < shown(b) ? -1 : 1));
}

/** What FT.INFO says. */
function described(reply) {
  const info = asMap(reply);
  const definition = asMap(info.get("index_definition"));
  const failures = new Map(info.get("field statistics").map((field) => [asMap(field).get("attribute"), asMap(asMap(field).get("Index Errors"))]));
  const fields = info.get("attributes").map((attribute) => ({ name: attribute[3], path: attribute[1], type: attribute[5], options: attribute.slice(6), errors: failures.get(attribute[3]) }));
  return {
    name: info.get("index_name"),
    on: definition.get("key_type"),
    prefixes: definition.get("prefixes"),
    fields,
    documents: Number(info.get("num_docs")),
    bytes: Number(info.get("total_index_memory_sz_mb")) * 1024 * 1024,
    share: Number(info.get("percent_indexed")),
    errors: asMap(info.get("Index Errors")),
  };
}

/** The indexes of `redis.search`, which are keys; none if the user may not list them. */
async function keyIndexes(database) {
  const known = await api.redis(database, "SEARCH.LISTINDEXES").catch(() => []);
  const replies = await api.redisAll(database, known.map((about) => ["SEARCH.DESCRIBE", asMap(about).get("name")]));
  return replies.flatMap(({ result }) => (Array.isArray(result) ? [describedKey(result)] : []));
}

function KeyIndexes({ database }) {
  const { value } = useLoaded(() => keyIndexes(database), [database]);
  if (!value?.length) return null;
  return html`<h3>Indexes of redis.search</h3><div class="scroll"><table id="key-indexes" class="lines">
    <thead><tr><th>index</th><th>on</th><th>prefixes</th><th>documents</th><th>size</th><th>filled</th></tr></thead>
    <tbody>${value.map((index) => html`<tr key=${identity(index.name)}>
      <td class="mono"><a class="key" href=${link("redis", database, shown(index.name), shown(index.name))}>${shown(index.name)}</a></td><td>${index.on}</td>
      <td class="mono">${index.prefixes.map(quoted).join(" ")}</td><td>${count(index.documents)}</td><td>${size(index.bytes)}</td><td>${index.isFilling ? "being filled" : "filled"}</td>
    </tr>`)}</tbody></table></div>`;
}

async function indexes(database) {
  const known = await names(database);
  const replies = await api.redisAll(database, known.map((name) => ["FT.INFO", name]));
  return replies.map(({ result, error }, index) => (error === undefined ? described(result) : { name: known[index], refusal: error }));
}

const ASKED_EVERY_MS = 2000;

/** Loads again and again while one of these is being filled. */
function useFilling(indexes, reload) {
  useEffect(() => {
    if (!indexes?.some(({ share }) => share < 1)) return;
    const waiting = setTimeout(reload, ASKED_EVERY_MS);
    return () => clearTimeout(waiting);
  }, [indexes]);
}

/** A time as a person says it. */
function duration(ms) {
  const [unit, name] = ms < 90_000 ? [1000, "s"] : ms < 5_400_000 ? [60_000, "min"] : [3_600_000, "h"];
  return `${Math.max(1, Math.round(ms / unit))} ${name}`;
}

/** How far an index is filled, and when it will be if it goes on as since this was first shown. */
function Filled({ share }) {
  const seen = useRef(null);
  const now = Date.now();
  if (seen.current === null || share < seen.current.share) seen.current = { share, first: share, began: now, leftMs: null };
  if (share > seen.current.share) {
    const { first, began } = seen.current;
    seen.current = { share, first, began, leftMs: ((1 - share) / (share - first)) * (now - began) };
  }
  if (!(share < 1)) return "filled";
  const { leftMs } = seen.current;
  return html`<progress max="1" value=${share} aria-label="filled"></progress> ${(100 * share).toFixed(1)} %${leftMs !== null && `, about ${duration(leftMs)} left`}`;
}

const lastFailure = ({ errors }) => `${shown(errors.get("last indexing error key"))}: ${shown(errors.get("last indexing error"))}`;
const failuresOf = ({ errors }) => Number(errors?.get("indexing failures") ?? 0);

function Overview({ database }) {
  const { value, error, loading, reload } = useLoaded(() => indexes(database), [database]);
  useFilling(value, reload);
  return html`<div class="row"><h1>Search indexes</h1><button onClick=${reload} disabled=${loading}>Refresh</button><${Busy} when=${loading} /></div>
    <${Problem} error=${error} />
    ${value && (value.length === 0
      ? html`<p class="dim">There is no index. FT.CREATE makes one.</p>`
      : html`<div class="scroll"><table id="indexes" class="lines">
          <thead><tr><th>index</th><th>on</th><th>prefixes</th><th>documents</th><th>size</th><th>filled</th><th>failures</th></tr></thead>
          <tbody>${value.map((index) => html`<tr key=${identity(index.name)}>
            <td class="mono"><a class="key" href=${link("search", database, shown(index.name))}>${shown(index.name)}</a></td>
            ${index.refusal
              ? html`<td colspan="6" class="problem">${index.refusal}</td>`
              : html`<td>${index.on}</td><td class="mono">${index.prefixes.map(quoted).join(" ")}</td><td>${count(index.documents)}</td>
                <td>${size(index.bytes)}</td><td><${Filled} share=${index.share} /></td><td class=${failuresOf(index) > 0 ? "problem" : ""}>${count(failuresOf(index))}</td>`}
          </tr>`)}</tbody>
        </table></div>`)}`;
}

function Fields({ index }) {
  return html`<h3>Fields</h3><div class="scroll"><table id="fields" class="lines">
    <thead><tr><th>field</th><th>path</th><th>type</th><th>options</th><th>failures</th><th>the last one</th></tr></thead>
    <tbody>${index.fields.map((field) => html`<tr key=${identity(field.name)}>
      <td class="mono">${shown(field.name)}</td><td class="mono">${shown(field.path)}</td><td>${field.type}</td><td class="mono">${field.options.map(shown).join(" ")}</td>
      <td class=${failuresOf(field) > 0 ? "problem" : ""}>${count(failuresOf(field))}</td>
      <td>${failuresOf(field) > 0 && lastFailure(field)}</td>
    </tr>`)}</tbody>
  </table></div>`;
}

/** What failed for no field of its own, as one that is too long. */
const isOfNoField = (index) => failuresOf(index) > index.fields.reduce((sum, field) => sum + failuresOf(field), 0);

function OneIndex({ database, name }) {
  const { value, error, loading, reload } = useLoaded(async () => described(await api.redis(database, "FT.INFO", name)), [database, name]);
  // While a look fails the pad keeps what was typed.
  const last = useRef(null);
  last.current = value ?? last.current;
  const index = last.current;
  useFilling(useMemo(() => value && [value], [value]), reload);
  return html`<div class="row"><h1 class="mono">${name}</h1><a class="button" href=${link("search", database)}>All indexes</a><button onClick=${reload} disabled=${loading}>Refresh</button></div>
    <${Problem} error=${error} />
    ${value && html`<p class="dim" id="index-facts">${index.on}, ${index.prefixes.map(quoted).join(" ")} · ${count(index.documents)} documents · ${size(index.bytes)} · <${Filled} share=${index.share} /></p>
      ${isOfNoField(index) && html`<p class="problem">${count(failuresOf(index))} failures, the last one ${lastFailure(index)}</p>`}`}
    ${index && html`<${SearchPad} database=${database} index=${index} />`}
    ${value && html`<${Fields} index=${index} />`}`;
}

export function Search({ database, parts }) {
  const name = parts[0];
  return html`<section>${name ? html`<${OneIndex} key=${name} database=${database} name=${name} />` : html`<${Overview} database=${database} /><${KeyIndexes} database=${database} />`}</section>`;
}
