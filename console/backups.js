// Backups: of the whole server, as its operator takes, verifies and restores them, and of DynamoDB's tables.

import { html, useEffect, useState } from "./html.js";
import * as api from "./api.js";
import { count, size } from "./bytes.js";
import { Busy, Confirm, Copy, Problem, useAct, useLoaded } from "./ui.js";

const LOOK_EVERY_MS = 1000;
const TASKS = { take: "Backup", verify: "Verification", restore: "Restoration" };

const moment = (micros) => new Date(Number(micros) / 1000).toISOString().replace("T", " ").replace(/\.\d+Z/, " UTC");

/** Loads again while `isGoing` says of what came that it will change. */
function useWatched(load, inputs, isGoing) {
  const loaded = useLoaded(load, inputs);
  useEffect(() => {
    if (loaded.loading || !isGoing(loaded.value)) return;
    const waiting = setTimeout(loaded.reload, LOOK_EVERY_MS);
    return () => clearTimeout(waiting);
  }, [loaded.loading, loaded.value]);
  return loaded;
}

const isRunning = (task) => Boolean(task) && task.done === undefined && task.failed === undefined;

function summary({ kind, done }) {
  if (kind === "take") return `${done.steps === 0 ? "nothing new" : `${size(done.bytes)}, ${done.full ? "all rows and the log" : "the log"}`}, up to ${moment(done.version)}`;
  if (kind === "verify") return `sound: ${size(done.bytes)}`;
  return `${count(done.rows)} rows as of ${moment(done.version)}`;
}

/** What runs, or ran last. */
function Task({ task, onStop }) {
  if (!task) return null;
  const title = `${TASKS[task.kind]}, ${task.target}`;
  if (task.failed !== undefined) return html`<p id="task" class="problem" role="alert">${title}: ${task.failed}</p>`;
  if (task.done === undefined) {
    const share = task.bytes_total > 0 ? task.bytes / task.bytes_total : undefined;
    return html`<p id="task" role="status">${title} <progress max="1" value=${share} aria-label=${title}></progress>
      ${size(task.bytes)}${task.bytes_total > 0 ? ` of ${size(task.bytes_total)}` : ""} <button class="small" onClick=${onStop}>Stop</button></p>`;
  }
  const command = `quartet serve --data ${task.done.folder}`;
  return html`<p id="task" role="status"><span class="good">${title}:</span> ${summary(task)}
    ${task.kind === "restore" && html`<br />A server opens it: <code>${command}</code> <${Copy} text=${command} />`}
    ${task.done.gap && html`<br /><span class="problem">The log did not reach back to the backup before: what was written between ${moment(task.done.gap.after)} and ${moment(task.done.gap.before)} is in none.</span>`}</p>`;
}

/** A moment between the two ends that a chain covers. */
function Moment({ chain, at, onChange }) {
  const span = chain.covered - chain.oldest;
  const place = at === null || span <= 0 ? 1000 : Math.round(((at - chain.oldest) / span) * 1000);
  const move = (event) => onChange(Number(event.target.value) >= 1000 ? null : Math.round(chain.oldest + (span * event.target.value) / 1000));
  const text = at === null ? `the newest, ${moment(chain.covered)}` : moment(at);
  return html`<label>As of <b id="restore-as-of">${text}</b><input id="restore-at" type="range" min="0" max="1000" value=${place} onInput=${move} aria-valuetext=${text} /></label>`;
}

function Restore({ target, chain, onDone, onCancel }) {
  const [into, setInto] = useState("");
  const [database, setDatabase] = useState("");
  const [at, setAt] = useState(null);
  const [act, { busy, error }] = useAct();
  const save = async (event) => {
    event.preventDefault();
    // Of the newest chain everything there is; of one before it, what it covers.
    const version = at ?? (chain.isNewest ? null : chain.covered);
    const done = await act(() => api.admin("POST", `backup-targets/${target}/restore`, { into, at: version, database: database || null }));
    if (done) onDone();
  };
  return html`<form class="panel" onSubmit=${save}><h3>Restore into a new folder</h3>
    <p class="dim">What is served does not change: the folder is for another server, and holds the credentials of its databases.</p>
    <${Moment} chain=${chain} at=${at} onChange=${setAt} />
    <label>Databases <select id="restore-database" value=${database} onChange=${(event) => setDatabase(event.target.value)}><option value="">all</option>${chain.databases.map((name) => html`<option key=${name}>${name}</option>`)}</select></label>
    <label>Name of the folder <input id="restore-into" class="mono" required pattern="[a-z0-9\\-]+" maxlength="64" value=${into} onInput=${(event) => setInto(event.target.value)} /></label>
    <${Problem} error=${error} />
    <div class="row end"><button type="button" onClick=${onCancel}>Cancel</button><button class="main" id="restore" disabled=${busy}>Restore</button></div>
  </form>`;
}

function Target({ target, task, mayRestore, onBegun }) {
  const [isFull, setFull] = useState(false);
  const [chosen, choose] = useState(null);
  const [act, { busy, error }] = useAct();
  const { name, address } = target;
  // What was just begun runs, though it may not be seen yet.
  const newest = task?.started_micros;
  const [before, begins] = useState(null);
  const runs = isRunning(task) || (before !== null && before.newest === newest);
  const held = useLoaded(() => api.admin("GET", `backup-targets/${name}`).then(({ chains }) => chains.map((chain) => ({ ...chain, isNewest: chain === chains.findLast(({ partition }) => partition === chain.partition) }))), [name, runs, newest]);
  const begin = async (what, given) => {
    begins({ newest });
    const done = await act(() => api.admin("POST", `backup-targets/${name}/${what}`, given));
    if (done) onBegun();
    else begins(null);
  };
  const chains = held.value ?? [];
  const hasSeveral = chains.some(({ partition }) => partition > 0);
  return html`<section class="panel" aria-label=${`Target ${name}`}><h3>${name} <code class="dim">${address}</code></h3>
    <div class="row">
      <button class="main" id=${`take-${name}`} disabled=${busy || runs} onClick=${() => begin("take", { full: isFull })}>Take a backup</button>
      <label class="line"><input type="checkbox" checked=${isFull} onChange=${(event) => setFull(event.target.checked)} /> all rows anew</label>
      <button id=${`verify-${name}`} disabled=${busy || runs || chains.length === 0} onClick=${() => begin("verify", {})}>Verify</button>
      <${Busy} when=${held.loading} />
    </div>
    <${Problem} error=${error ?? held.error} />
    <div class="scroll"><table id=${`chains-${name}`}><thead><tr>${hasSeveral && html`<th class="number">partition</th>`}<th>from</th><th>to</th><th class="number">rows at first</th><th class="number optional">steps</th><th class="number">size</th><th></th></tr></thead>
      <tbody>${chains.map(
        (chain) => html`<tr key=${`${chain.partition}/${chain.oldest}`}>${hasSeveral && html`<td class="number">${chain.partition}</td>`}<td>${moment(chain.oldest)}</td><td>${moment(chain.covered)}</td><td class="number">${count(chain.rows)}</td><td class="number optional">${count(chain.steps)}</td><td class="number">${size(chain.bytes)}</td>
          <td>${mayRestore && html`<button class="small" disabled=${runs} onClick=${() => choose(chain)}>Restore…</button>`}</td></tr>`,
      )}</tbody></table></div>
    ${!held.loading && chains.length === 0 && !held.error && html`<p class="dim">No backup yet.</p>`}
    ${chosen && html`<${Restore} key=${`${chosen.partition}/${chosen.oldest}`} target=${name} chain=${chosen} onDone=${() => { choose(null); onBegun(); }} onCancel=${() => choose(null)} />`}
  </section>`;
}

function Server() {
  const { value, error, reload } = useWatched(() => api.admin("GET", "backup-targets"), [], (value) => isRunning(value?.task));
  const [act, { error: problem }] = useAct();
  if (error) return html`<${Problem} error=${error} />`;
  if (!value) return html`<${Busy} />`;
  const { targets, task, restore_folder: folder } = value;
  const stop = () => act(() => api.admin("DELETE", "backup-task")).then(reload);
  return html`<section><h2>Backups of this server</h2>
    <${Task} task=${task} onStop=${stop} /><${Problem} error=${problem} />
    ${targets.length === 0 && html`<p>The server was started without places for backups: <code>--backup-targets nightly=/var/backups/quartet</code>. <code>quartet backup --to DIR</code> takes one from outside.</p>`}
    ${targets.length > 0 && !folder && html`<p class="dim">Restoring from here needs <code>--restore-folder DIR</code>.</p>`}
    ${targets.map((target) => html`<${Target} key=${target.name} target=${target} task=${task} mayRestore=${Boolean(folder)} onBegun=${reload} />`)}
  </section>`;
}

// ---- DynamoDB's tables

const inSeconds = (seconds) => moment(Number(seconds) * 1_000_000);

async function everything(database) {
  const [{ BackupSummaries: backups }, { TableNames: tables }] = await Promise.all([api.dynamodb(database, "ListBackups", {}), api.dynamodb(database, "ListTables", {})]);
  const described = await Promise.all(tables.map((TableName) => api.dynamodb(database, "DescribeTable", { TableName }).then(({ Table }) => Table)));
  const recovery = await Promise.all(tables.map((TableName) => api.dynamodb(database, "DescribeContinuousBackups", { TableName }).then((answer) => answer.ContinuousBackupsDescription.PointInTimeRecoveryDescription)));
  return { backups, tables: described.map((table, index) => ({ ...table, recovery: recovery[index] })) };
}

/** A table out of a backup, or as it was at a time. */
function NewTable({ database, from, onDone, onCancel }) {
  const [name, setName] = useState("");
  const [place, setPlace] = useState(1000);
  const [act, { busy, error }] = useAct();
  const { EarliestRestorableDateTime: oldest, LatestRestorableDateTime: newest } = from.recovery ?? {};
  const at = Number(oldest) + ((Number(newest) - Number(oldest)) * place) / 1000;
  const restore = () =>
    from.recovery
      ? api.dynamodb(database, "RestoreTableToPointInTime", { SourceTableName: from.TableName, TargetTableName: name, ...(place >= 1000 ? { UseLatestRestorableTime: true } : { RestoreDateTime: at }) })
      : api.dynamodb(database, "RestoreTableFromBackup", { BackupArn: from.BackupArn, TargetTableName: name });
  const save = async (event) => {
    event.preventDefault();
    if (await act(restore)) onDone();
  };
  return html`<form class="panel" onSubmit=${save}><h3>${from.TableName}, into a new table</h3>
    ${from.recovery && html`<label>As of <b id="table-as-of">${inSeconds(at)}</b><input id="table-at" type="range" min="0" max="1000" value=${place} onInput=${(event) => setPlace(Number(event.target.value))} aria-valuetext=${inSeconds(at)} /></label>`}
    <label>Name of the table <input id="restored-table" class="mono" required minlength="3" maxlength="255" pattern="[A-Za-z0-9_.\\-]+" value=${name} onInput=${(event) => setName(event.target.value)} /></label>
    <${Problem} error=${error} />
    <div class="row end"><button type="button" onClick=${onCancel}>Cancel</button><button class="main" id="restore-table" disabled=${busy}>Restore</button></div>
  </form>`;
}

function Tables({ database }) {
  const isChanging = (value) => value?.tables.some(({ TableStatus }) => TableStatus !== "ACTIVE") || value?.backups.some(({ BackupStatus }) => BackupStatus === "CREATING");
  const { value, error, loading, reload } = useWatched(() => everything(database), [database], isChanging);
  const [from, restoreFrom] = useState(null);
  const [ask, setAsk] = useState(null);
  const [act, { busy, error: problem }] = useAct();
  const run = (operation, input) => act(() => api.dynamodb(database, operation, input)).then(reload);
  const take = (TableName) => run("CreateBackup", { TableName, BackupName: `${TableName}-${new Date().toISOString().replace(/[^0-9]/g, "").slice(0, 14)}` });
  const keep = (TableName, isKept) => run("UpdateContinuousBackups", { TableName, PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: isKept } });
  const remove = ({ BackupArn, BackupName }) => setAsk({ title: `Delete the backup ${BackupName}?`, text: "The table does not change.", action: "Delete", act: async () => { await api.dynamodb(database, "DeleteBackup", { BackupArn }); reload(); } });
  const { tables = [], backups = [] } = value ?? {};
  const isKept = ({ recovery }) => recovery.PointInTimeRecoveryStatus === "ENABLED";
  return html`<section><h2>Tables of ${database}</h2>
    <div class="row"><button onClick=${reload}>Refresh</button><${Busy} when=${loading} /></div>
    <${Problem} error=${error ?? problem} />
    <div class="scroll"><table id="tables"><thead><tr><th>table</th><th>status</th><th>history is kept</th><th></th></tr></thead><tbody>${tables.map(
      (table) => html`<tr key=${table.TableName}><td class="mono">${table.TableName}</td><td>${table.TableStatus}</td>
        <td><label class="line"><input type="checkbox" aria-label=${`History of ${table.TableName}`} disabled=${busy} checked=${isKept(table)} onChange=${(event) => keep(table.TableName, event.target.checked)} />
          ${isKept(table) && html` since ${inSeconds(table.recovery.EarliestRestorableDateTime)}`}</label></td>
        <td><button class="small" aria-label=${`Back up ${table.TableName}`} disabled=${busy} onClick=${() => take(table.TableName)}>Back up</button>
          ${isKept(table) && html` <button class="small" onClick=${() => restoreFrom(table)}>As it was…</button>`}</td></tr>`,
    )}</tbody></table></div>
    ${!loading && tables.length === 0 && !error && html`<p class="dim">No tables.</p>`}
    <h3>Backups of tables</h3>
    <div class="scroll"><table id="table-backups"><tbody>${backups.map(
      (backup) => html`<tr key=${backup.BackupArn}><td class="mono">${backup.BackupName}</td><td class="optional">${inSeconds(backup.BackupCreationDateTime)}</td><td>${backup.BackupStatus}</td><td class="number">${size(backup.BackupSizeBytes ?? 0)}</td>
        <td><button class="small" onClick=${() => restoreFrom({ ...backup, recovery: null })}>Restore…</button> <button class="small danger" aria-label=${`Delete ${backup.BackupName}`} onClick=${() => remove(backup)}>Delete</button></td></tr>`,
    )}</tbody></table></div>
    ${from && html`<${NewTable} key=${from.BackupArn ?? from.TableName} database=${database} from=${from} onDone=${() => { restoreFrom(null); reload(); }} onCancel=${() => restoreFrom(null)} />`}
    <${Confirm} ask=${ask} onEnd=${() => setAsk(null)} /></section>`;
}

export function Backups({ database, session }) {
  const here = session.databases.find((each) => each.name === database) ?? {};
  if (!session.operator && !here.dynamodb) return html`<p>Backups of the server are its operator's, and <b>${database}</b> has no tables that this session may see. <a href="#/login">Add a credential</a>.</p>`;
  return html`${session.operator && html`<${Server} />`}${here.dynamodb && html`<${Tables} key=${database} database=${database} />`}`;
}
