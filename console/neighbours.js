// The nearest of a vector: in a vector set, in a vector index, and of a document in a search index.

import { html, useState } from "./html.js";
import * as api from "./api.js";
import { count, escapedName, identity, quoted, shown, toBytes } from "./bytes.js";
import { Busy, Problem, useAct, useLoaded } from "./ui.js";
import { encoded } from "./vectors.js";

const NEAREST = 10;
const PAGE = 50;
/** A name that no field is likely to have. */
const DISTANCE = "__distance";

const inPairs = (flat) => Array.from({ length: flat.length >> 1 }, (_, index) => ({ name: flat[2 * index], value: Number(flat[2 * index + 1]) }));

/** `of` names the vector; `value` is a score or a distance, as `measure` says. */
export function Nearest({ of, nearest, measure, onChoose }) {
  return html`<section aria-label="Neighbours"><h3>Nearest of <span class="mono">${shown(of)}</span></h3>
    <div class="scroll"><table id="neighbours" class="lines">
      <thead><tr><th>element</th><th>${measure}</th></tr></thead>
      <tbody>${nearest.map(({ name, value }) => html`<tr key=${identity(name)}>
        <td class="mono"><button type="button" class="small" onClick=${() => onChoose(name)}>${shown(name)}</button></td><td>${Number(value.toPrecision(6))}</td>
      </tr>`)}</tbody>
    </table></div></section>`;
}

/** Loads the nearest of one that is chosen. */
function useNeighbours(load) {
  const [found, setFound] = useState(null);
  const [act, state] = useAct();
  const choose = (of) => act(async () => setFound({ of, nearest: await load(of) }));
  return { found, choose, ...state };
}

export function VectorSet({ database, name }) {
  const { value: total } = useLoaded(() => api.redis(database, "VCARD", name), [database, name]);
  const [pages, setPages] = useState([]);
  const read = (from) => api.redis(database, "VRANGE", name, from, "+", PAGE);
  const first = useLoaded(() => read("-"), [database, name]);
  const [act, { busy }] = useAct();
  const { found, choose, error } = useNeighbours(async (of) => inPairs(await api.redis(database, "VSIM", name, "ELE", of, "WITHSCORES", "COUNT", NEAREST)));
  const elements = [...(first.value ?? []), ...pages.flat()];
  const last = elements.at(-1);
  const hasMore = total !== undefined && elements.length < total && typeof last === "string";
  const more = () => act(async () => setPages([...pages, await read("(" + last)]));
  return html`<p class="dim">${total === undefined ? "" : `${count(total)} elements`}</p>
    <${Problem} error=${error ?? first.error} />
    <div class="scroll"><table id="elements"><thead><tr><th>element</th><th></th></tr></thead>
      <tbody>${elements.map((element) => html`<tr key=${identity(element)}>
        <td class="mono">${shown(element)}</td><td class="number"><button class="small" aria-label=${"Neighbours of " + shown(element)} onClick=${() => choose(element)}>Neighbours</button></td>
      </tr>`)}</tbody></table></div>
    ${hasMore && html`<button disabled=${busy} onClick=${more}>More</button>`}
    ${found && html`<${Nearest} of=${found.of} nearest=${found.nearest} measure="score" onChoose=${choose} />`}`;
}

/** No command lists the IDs of such an index, so one is asked for. */
export function VectorIndex({ database, name }) {
  const { value: about, error: unread } = useLoaded(async () => {
    const replies = await api.redisAll(database, [["VECTOR.INFO", name], ["VECTOR.COUNT", name]]);
    return { info: replies[0].result, total: replies[1].result };
  }, [database, name]);
  const [id, setId] = useState("");
  const { found, choose, busy, error } = useNeighbours(async (of) => {
    const vector = await api.redis(database, "VECTOR.GET", name, of);
    if (vector === null) throw new Error("there is no such ID");
    const hits = await api.redis(database, "VECTOR.QUERY", name, "TOPK", NEAREST, "VALUES", vector.length, ...vector);
    return hits.map(([name, score]) => ({ name, value: Number(score) }));
  });
  const submit = (event) => {
    event.preventDefault();
    choose(id);
  };
  return html`${about && html`<p class="dim">${count(about.total)} vectors of ${about.info[1]} components, ${shown(about.info[3])}</p>`}
    <form class="row" onSubmit=${submit}>
      <label class="line">ID <input id="vector-id" class="mono" required value=${id} onInput=${(event) => setId(event.target.value)} /></label>
      <button class="main" disabled=${busy}>Neighbours</button><${Busy} when=${busy} />
    </form>
    <${Problem} error=${error ?? unread} />
    ${found && html`<${Nearest} of=${found.of} nearest=${found.nearest} measure="score" onChoose=${choose} />`}`;
}

/** What the numbers of a field's vectors are, as FT.INFO says. */
export const vectorType = (field) => field.options[field.options.indexOf("data_type") + 1];

/** The vector of a document, as the bytes that a search takes; the first if there are several. */
async function vectorOf(database, index, field, key) {
  if (index.on === "HASH") {
    const bytes = await api.redis(database, "HGET", key, field.path);
    if (bytes === null) throw new Error(`${quoted(key)} has no field ${quoted(field.path)}`);
    return toBytes(bytes);
  }
  const json = await api.redis(database, "JSON.GET", key, field.path);
  let numbers = json === null ? [] : JSON.parse(shown(json));
  while (Array.isArray(numbers[0])) numbers = numbers[0];
  if (typeof numbers[0] !== "number") throw new Error(`${quoted(key)} has no vector at ${quoted(field.path)}`);
  return encoded(numbers, vectorType(field));
}

/** The documents nearest to one of an index, by a field of vectors. */
export async function nearestDocuments(database, index, field, key) {
  const vector = await vectorOf(database, index, field, key);
  const query = `*=>[KNN ${NEAREST} @${escapedName(field.name)} $vector AS ${DISTANCE}]`;
  const reply = await api.redis(database, "FT.SEARCH", index.name, query, "SORTBY", DISTANCE, "RETURN", "1", DISTANCE, "DIALECT", "2", "PARAMS", "2", "vector", vector);
  const found = [];
  for (let at = 1; at < reply.length; at += 2) found.push({ name: reply[at], value: Number(reply[at + 1][1]) });
  return found;
}
