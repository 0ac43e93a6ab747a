// The logical databases as their operator sees them: quotas, use, credentials.

import { html, useState } from "./html.js";
import * as api from "./api.js";
import { count, size } from "./bytes.js";
import { variables } from "./connect.js";
import { Busy, Confirm, Copy, Problem, link, useAct, useLoaded } from "./ui.js";

/** What each quota is of; those whose names end so are sizes. */
const QUOTAS = {
  commands_per_second: "Commands a second",
  commands_per_day: "Commands a day (UTC)",
  request_bytes: "Largest request, in bytes, or as 10 MB",
  stored_bytes: "Stored data, in bytes, or as 10 GB",
  connections: "Connections at once",
  script_millis: "Longest script, in milliseconds",
};
const isSize = (quota) => quota.endsWith("_bytes");
const UNITS = ["", "K", "M", "G", "T"];

/** The number that `10 MB`, `64k` or `512` is; KB are of 1,024 bytes, as they are shown. */
function amount(quota, text) {
  const [, number, unit] = /^([\d.]+) *([kmgt]?)i?b?$/i.exec(text.trim()) ?? [];
  const value = Math.round(Number(number) * 1024 ** UNITS.indexOf((unit ?? "").toUpperCase()));
  if (!Number.isFinite(value) || (unit && !isSize(quota))) throw new Error(`${QUOTAS[quota]}: ${text} is no ${isSize(quota) ? "size" : "number"}`);
  return value;
}

/** The shortest text that `amount` makes the same number of. */
function shownAmount(quota, value) {
  if (!value || !isSize(quota)) return value ?? "";
  const power = UNITS.findLastIndex((_, index) => value % 1024 ** index === 0);
  return `${value / 1024 ** power} ${UNITS[power]}B`;
}
const DURABILITIES = ["always", "interval", "none"];

function Credentials({ session, made, onClose }) {
  const text = JSON.stringify(made.credentials, null, 2);
  const lines = variables(session, made.name, made.credentials);
  return html`<section class="panel" aria-label="Credentials"><h2>Credentials of ${made.name}</h2>
    <p>They are shown this once. This session has them now.</p><pre id="credentials">${text}</pre><${Copy} text=${text} />
    <h3>For its clients</h3><pre id="variables">${lines}</pre><${Copy} text=${lines} />
    <div class="row"><a class="button" href=${link("connect", made.name)}>Connect: snippets</a><button onClick=${onClose}>I have them</button></div></section>`;
}

/** The definition of a database, new or known. */
function Definition({ known, onDone, onCancel }) {
  const [name, setName] = useState(known?.name ?? "");
  const [durability, setDurability] = useState(known?.durability ?? "always");
  const [quotas, setQuotas] = useState(() => Object.fromEntries(Object.keys(QUOTAS).map((quota) => [quota, shownAmount(quota, known?.quotas[quota])])));
  const [act, { busy, error }] = useAct();
  const save = async (event) => {
    event.preventDefault();
    const given = Object.entries(quotas).filter(([, value]) => known || value !== "");
    const done = await act(() => {
      const wanted = { durability, quotas: Object.fromEntries(given.map(([quota, value]) => [quota, value === "" ? null : amount(quota, String(value))])) };
      return known ? api.admin("PATCH", `databases/${known.name}`, wanted) : api.admin("POST", "databases", { name, ...wanted });
    });
    if (done) onDone(done);
  };
  return html`<form class="panel" onSubmit=${save}><h2>${known ? known.name : "New database"}</h2>
    ${!known && html`<label>Name <input id="database-name" class="mono" pattern="[a-z0-9\\-]+" maxlength="64" required value=${name} onInput=${(event) => setName(event.target.value)} /></label>`}
    <label>Durability <select value=${durability} onChange=${(event) => setDurability(event.target.value)}>${DURABILITIES.map((each) => html`<option key=${each}>${each}</option>`)}</select></label>
    ${Object.entries(QUOTAS).map(([quota, title]) => html`<label key=${quota}>${title} <input id=${quota} placeholder="no limit" value=${quotas[quota]} onInput=${(event) => setQuotas({ ...quotas, [quota]: event.target.value })} /></label>`)}
    <${Problem} error=${error} />
    <div class="row end"><button type="button" onClick=${onCancel}>Cancel</button><button class="main" id="save" disabled=${busy}>${known ? "Save" : "Create"}</button></div>
  </form>`;
}

const part = (used, limit) => (limit ? html`<div class="dim">of ${limit}</div>` : null);

function Usage({ database }) {
  const { usage, quotas } = database;
  return html`<td class="number">${count(usage.commands ?? 0)}${part(usage.commands_of_day, quotas.commands_per_day && `${count(quotas.commands_per_day)} a day`)}</td>
    <td class="number optional">${count(usage.read_units ?? 0)} / ${count(usage.write_units ?? 0)}</td>
    <td class="number optional">${size(usage.bytes_in ?? 0)} / ${size(usage.bytes_out ?? 0)}</td>
    <td class="number">${size(usage.stored_bytes ?? 0)}${part(usage.stored_bytes, quotas.stored_bytes && size(quotas.stored_bytes))}</td>
    <td class="number optional">${count(usage.connections ?? 0)}${part(usage.connections, quotas.connections)}</td>
    <td class="number optional">${count(usage.refused ?? 0)}</td>`;
}

const waits = (partition) => [partition.is_disk_full && "disk full", partition.writers_wait && "writers wait", partition.is_busy && "busy"].filter(Boolean).join(", ");

/** What each partition has and does, where there are several. */
function Partitions() {
  const { value, error } = useLoaded(() => api.admin("GET", "partitions"), []);
  if (error) return html`<${Problem} error=${error} />`;
  if (!value || value.partitions.length < 2) return null;
  const { partitions, moves } = value;
  return html`<h3>Partitions</h3>
    <div class="scroll"><table id="partitions"><thead><tr><th class="number">number</th><th>databases</th><th class="number">stored</th><th class="number">log</th><th class="number optional">transactions</th><th class="number optional">syncs</th><th class="number optional">not flushed</th><th></th></tr></thead>
      <tbody>${partitions.map(
        (partition) => html`<tr key=${partition.partition}><td class="number">${partition.partition}</td><td>${partition.databases.join(", ")}</td><td class="number">${size(partition.stored_bytes)}</td><td class="number">${size(partition.log_bytes)}</td>
          <td class="number optional">${count(partition.transactions)}</td><td class="number optional">${count(partition.log_syncs)}</td><td class="number optional">${size(partition.unflushed_bytes)}</td><td>${waits(partition)}</td></tr>`,
      )}</tbody></table></div>
    ${moves.length > 0 &&
    html`<div class="scroll"><table id="moves"><thead><tr><th>moved since the start</th><th class="number">from</th><th class="number">to</th><th>step</th><th class="number">rows copied</th><th></th></tr></thead>
      <tbody>${moves.map(
        (move) => html`<tr key=${move.database}><td>${move.database}</td><td class="number">${move.from}</td><td class="number">${move.to}</td><td>${move.phase}</td><td class="number">${count(move.rows_copied)}</td><td>${move.error ?? ""}</td></tr>`,
      )}</tbody></table></div>`}`;
}

export function Databases({ session, reloadSession }) {
  const [edited, edit] = useState(null);
  const [made, setMade] = useState(null);
  const [ask, setAsk] = useState(null);
  const { value, error, loading, reload } = useLoaded(() => api.admin("GET", "databases").then(({ databases }) => databases), []);
  if (!session.operator) return html`<p>The databases of this server are its operator's: log in with the root key.</p>`;
  const done = async (shown) => {
    edit(null);
    if (shown.credentials) {
      await api.login(JSON.stringify(shown.credentials));
      setMade(shown);
    }
    reload();
    reloadSession();
  };
  const askToDelete = ({ name }) =>
    setAsk({ title: `Delete the database ${name}?`, text: "Its connections are closed, and all its keys, tables and documents are deleted.", word: name, action: "Delete", act: async () => { await api.admin("DELETE", `databases/${name}`); reload(); reloadSession(); } });
  const askToRenew = ({ name }) =>
    setAsk({ title: `New credentials for ${name}?`, text: "The old credentials end at once, and its connections are closed.", action: "Renew", act: async () => done(await api.admin("POST", `databases/${name}/credentials`)) });
  return html`<section><h2>Databases</h2>
    <div class="row"><button id="new-database" onClick=${() => edit("new")}>New database</button><button onClick=${reload}>Refresh</button><${Busy} when=${loading} /></div>
    <${Problem} error=${error} />
    ${made && html`<${Credentials} session=${session} made=${made} onClose=${() => setMade(null)} />`}
    ${edited && html`<${Definition} key=${edited.name ?? ""} known=${edited === "new" ? null : edited} onDone=${done} onCancel=${() => edit(null)} />`}
    <div class="scroll"><table id="databases"><thead><tr><th>name</th><th>durability</th><th class="number">commands</th><th class="number optional">units read / written</th><th class="number optional">bytes in / out</th><th class="number">stored</th><th class="number optional">connections</th><th class="number optional">refused</th><th></th></tr></thead>
      <tbody>${(value ?? []).map(
        (database) => html`<tr key=${database.name}><td><a href=${link("redis", database.name)}>${database.name}</a></td><td>${database.durability}</td><${Usage} database=${database} />
          <td>${database.name !== "default" && html`<button class="small" onClick=${() => edit(database)}>Change</button> <button class="small" onClick=${() => askToRenew(database)}>Renew credentials</button> <button class="small danger" aria-label=${"Delete " + database.name} onClick=${() => askToDelete(database)}>Delete</button>`}</td></tr>`,
      )}</tbody></table></div>
    <${Partitions} key=${"partitions" + (value ?? []).length} />
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} /></section>`;
}
