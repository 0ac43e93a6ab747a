// What a key, an item or a row was: as far as the log goes back, and as it changes while somebody looks.

import { html, useEffect, useState } from "./html.js";
import * as api from "./api.js";
import { fromBase64 } from "./tuples.js";
import { Problem } from "./ui.js";

const MOMENTS_MAX = 1000;
const SECOND = 1_000_000;
/** The log is kept for a while: how long ago is tried first, and then what is nearer. */
const AGES = [7 * 86_400, 86_400, 6 * 3_600, 3_600, 600, 60, 0];

/** Bytes of a member of a change, which the feed tells as text where that is possible. */
export function bytesOf(change, member) {
  const base64 = change[member + "_base64"];
  if (base64 !== undefined) return fromBase64(base64);
  return change[member] === undefined ? null : new TextEncoder().encode(change[member]);
}

const time = (version) => new Date(Number(version) / 1000).toISOString().replace("T", " ").replace("Z", " UTC");

/** Follows from as long ago as the log has it. */
async function followAll(database, wanted, tell, signal) {
  const beginnings = [0, ...AGES.map((age) => Math.max(0, Math.round(Date.now() * 1000 - age * SECOND)))];
  for (const [index, from] of beginnings.entries()) {
    try {
      return await api.followChanges(database, { ...wanted, from }, tell, signal);
    } catch (error) {
      if (error.status !== 410 || index === beginnings.length - 1) throw error;
    }
  }
}

function Moments({ database, layer, prefix, read }) {
  const [moments, setMoments] = useState([]);
  const [place, setPlace] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    const stop = new AbortController();
    const tell = ({ version, changes = [] }) => {
      const found = changes.map(read).filter((text) => text !== null).map((text) => ({ version, text }));
      if (found.length > 0) setMoments((old) => [...old, ...found].slice(-MOMENTS_MAX));
    };
    followAll(database, { layer, prefix }, tell, stop.signal).catch((error) => stop.signal.aborted || setError(error));
    return () => stop.abort();
  }, [database, layer, prefix]);
  const last = moments.length - 1;
  const shown = Math.min(place ?? last, last);
  if (error) return html`<${Problem} error=${error} />`;
  if (last < 0) return html`<p class="dim" role="status">Nothing of it is in the log that is kept.</p>`;
  const move = (event) => setPlace(Number(event.target.value) >= last ? null : Number(event.target.value));
  return html`<label>As of <b id="as-of">${time(moments[shown].version)}</b> <span class="dim">${shown + 1} of ${moments.length}${place === null ? ", the newest" : ""}</span>
      <input id="moment" type="range" min="0" max=${last} value=${shown} onInput=${move} aria-valuetext=${time(moments[shown].version)} />
    </label>
    <pre id="moment-text">${moments[shown].text}</pre>`;
}

/** A slider over what something was. `read` makes a text of a change, or `null` if the change is another's. */
export function History(given) {
  const [isOpen, open] = useState(false);
  return html`<details class="as-of" onToggle=${(event) => open(event.target.open)}><summary>As it was</summary>
    ${isOpen && html`<${Moments} ...${given} />`}
  </details>`;
}
