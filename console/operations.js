// How the server does: throughput and latency as charts, memory, durability, slow requests and the biggest keys.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { count, shown, size } from "./bytes.js";
import { Busy, Problem, link, useAct, useLoaded } from "./ui.js";

const PERIOD_MS = 2000;
const POINTS_MAX = 120;

/** The figures of INFO by name. */
export function figures(text) {
  const found = {};
  for (const line of text.split("\r\n")) {
    const colon = line.indexOf(":");
    if (colon > 0 && !line.startsWith("#")) found[line.slice(0, colon)] = line.slice(colon + 1);
  }
  return found;
}

/** The samples of Prometheus' text: `{name, labels, value}`. */
export function samples(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

/** Names of time series to their points: `[{time, value}]`, and the rates of those that only grow. */
function useSeries(read) {
  const [points, setPoints] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    let isOver = false;
    let waiting;
    const look = async () => {
      try {
        const values = await read();
        if (isOver) return;
        setPoints((old) => [...old, { time: performance.now(), values }].slice(-POINTS_MAX));
        setError(null);
      } catch (error) {
        if (!isOver) setError(error);
      }
      // The next look begins when this one has ended, and not while nobody looks at the page.
      if (!isOver) waiting = setTimeout(() => (document.hidden ? (waiting = setTimeout(look, PERIOD_MS)) : look()), PERIOD_MS);
    };
    look();
    return () => {
      isOver = true;
      clearTimeout(waiting);
    };
  }, []);
  return { points, error };
}

const rates = (points, name) =>
  points.slice(1).map((point, index) => {
    const grown = (point.values[name] ?? 0) - (points[index].values[name] ?? 0);
    return Math.max(0, (grown * 1000) / (point.time - points[index].time));
  });

/** Growth of one counter for each unit of growth of another: a mean over the period. */
const ratios = (points, above, below) =>
  points.slice(1).map((point, index) => {
    const [top, bottom] = [above, below].map((name) => (point.values[name] ?? 0) - (points[index].values[name] ?? 0));
    return bottom > 0 ? top / bottom : 0;
  });

const short = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(1)} M` : value >= 1e4 ? `${(value / 1e3).toFixed(1)} k` : value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toFixed(1));

/** Classes of the style; there are no more layers. */
const COLOURS = "abcdefg";

const WINDOW_MS = PERIOD_MS * (POINTS_MAX - 1);

/**
 * The least of 10, 20 and 50 times a power of ten that is not below `value`, whose half is a whole number too; for sizes, of 1, 2, 4 …
 * times a power of 1,024.
 */
function ceiling(value, isSize) {
  const least = isSize ? 1024 : 10;
  if (value <= least) return least;
  const base = isSize ? 1024 ** Math.floor(Math.log2(value) / 10) : 10 ** Math.floor(Math.log10(value));
  const steps = isSize ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] : [1, 2, 5, 10];
  return base * steps.find((step) => value <= base * step * (1 + 1e-9));
}

const clock = (time) => new Date(performance.timeOrigin + time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** Lines over the last four minutes, above zero; `lines` are `{title, values}`, whose last values belong to the last of `points`. */
function Chart({ title, points, lines, unit = "", format = short }) {
  const top = ceiling(Math.max(0, ...lines.flatMap(({ values }) => values)), format === size);
  const last = points.at(-1).time;
  const x = (time) => 300 * (1 - (last - time) / WINDOW_MS);
  const path = (values) =>
    values
      .map((value, index) => [points[points.length - values.length + index].time, value])
      .filter(([time]) => time >= last - WINDOW_MS)
      .map(([time, value]) => `${x(time).toFixed(1)},${(60 - (value / top) * 60).toFixed(1)}`)
      .join(" ");
  const now = ({ values }) => `${format(values.at(-1) ?? 0)}${unit}`;
  const latest = lines.map((line) => `${line.title} ${now(line)}`).join(", ");
  return html`<div class="card">
    <h3>${title}</h3>
    <div class="latest">${lines.map((line, index) => html`<span key=${line.title} class=${"key-" + COLOURS[index % COLOURS.length]}><b>${now(line)}</b>${line.title}</span>`)}</div>
    <div class="plot">
      <div class="scale" aria-hidden="true">${[top, top / 2, 0].map((value) => html`<span>${format(value)}${unit}</span>`)}</div>
      <svg class="chart" viewBox="0 0 300 60" preserveAspectRatio="none" role="img" aria-label=${`${title}: ${latest}`}>
        ${[0, 15, 30, 45].map((y) => html`<line x1="0" x2="300" y1=${y} y2=${y} />`)}
        ${[75, 150, 225].map((x) => html`<line x1=${x} x2=${x} y1="0" y2="60" />`)}
        <line class="zero" x1="0" x2="300" y1="60" y2="60" />
        ${lines.map(({ title, values }, index) => html`<polyline key=${title} class=${COLOURS[index % COLOURS.length]} points=${path(values)} />`)}
      </svg>
      <div class="times" aria-hidden="true">${[1, 0.5, 0].map((share) => html`<span>${clock(last - share * WINDOW_MS)}</span>`)}</div>
    </div>
  </div>`;
}

const Card = ({ title, children }) => html`<div class="card"><span class="dim">${title}</span><b>${children}</b></div>`;

async function look(database, isOperator) {
  const info = figures(shown(await api.redis(database, "INFO", "everything")));
  const values = { ...Object.fromEntries(Object.entries(info).map(([name, value]) => [name, Number(value)])), info };
  for (const [name, text] of Object.entries(info)) {
    const match = name.startsWith("cmdstat_") && /calls=(\d+),usec=(\d+)/.exec(text);
    if (!match) continue;
    values.calls = (values.calls ?? 0) + Number(match[1]);
    values.micros = (values.micros ?? 0) + Number(match[2]);
  }
  if (!isOperator) return values;
  for (const { name, labels, value } of samples(await api.metrics())) {
    values[name] = (values[name] ?? 0) + value;
    if (labels.layer) values[`${name} ${labels.layer}`] = (values[`${name} ${labels.layer}`] ?? 0) + value;
  }
  return values;
}

/** What the metrics tell of each layer by itself: `[layer, counter, seconds]`. */
function layersIn(values) {
  const layers = new Map();
  for (const name of Object.keys(values)) {
    const match = /^(quartet_\w+_seconds)_count (\w+)$/.exec(name);
    if (match) layers.set(match[2], match[1]);
  }
  return [...layers].map(([layer, base]) => ({ layer, counter: `${base}_count ${layer}`, seconds: `${base}_sum ${layer}` }));
}

function Charts({ database, session }) {
  const isOperator = session.operator && database === "default";
  const { points, error } = useSeries(() => look(database, isOperator));
  const latest = points.at(-1)?.values;
  if (!latest) return html`<${Busy} when=${!error} /><${Problem} error=${error} />`;
  const { info } = latest;
  const layers = layersIn(latest);
  const perLayer = layers.length > 0;
  const throughput = perLayer ? layers.map(({ layer, counter }) => ({ title: layer, values: rates(points, counter) })) : [{ title: "commands", values: rates(points, "calls") }];
  const latency = perLayer
    ? layers.map(({ layer, counter, seconds }) => ({ title: layer, values: ratios(points, seconds, counter).map((value) => value * 1e6) }))
    : [{ title: "commands", values: ratios(points, "micros", "calls") }];
  return html`<${Problem} error=${error} />
    <div class="cards" id="charts">
      <${Chart} points=${points} title="Requests" unit="/s" lines=${isOperator && !perLayer ? [...throughput, { title: "transactions of all layers", values: rates(points, "quartet_transactions_total") }] : throughput} />
      <${Chart} points=${points} title="Mean time in the server" lines=${latency} unit=" µs" />
      <${Chart} points=${points} title="Memory" lines=${[{ title: "resident", values: points.map(({ values }) => values.used_memory_rss ?? 0) }, { title: "data", values: points.map(({ values }) => values.used_memory_dataset ?? 0) }]} format=${size} />
      <${Chart} points=${points} title="Network" unit="/s" lines=${[{ title: "in", values: rates(points, "total_net_input_bytes") }, { title: "out", values: rates(points, "total_net_output_bytes") }]} format=${size} />
      ${isOperator && html`<${Chart} points=${points} title="Log" unit="/s" lines=${[{ title: "syncs", values: rates(points, "quartet_log_syncs_total") }, { title: "epochs", values: rates(points, "quartet_log_epochs_total") }, { title: "conflicts", values: rates(points, "quartet_conflicts_total") }]} />
      <${Chart} points=${points} title="CPU" lines=${[{ title: "user", values: rates(points, "process_cpu_user_seconds_total").map((value) => value * 100) }, { title: "system", values: rates(points, "process_cpu_system_seconds_total").map((value) => value * 100) }]} unit=" %" />`}
    </div>
    <div class="cards" id="figures">
      <${Card} title="Durability">${info.quartet_durability}<//>
      ${isOperator && html`<${Card} title="Durable version">${latest.quartet_durable_version}<//>
      <${Card} title="Checkpoints">${count(latest.quartet_checkpoints_total ?? 0)}${latest.quartet_checkpoint_failed ? " (the last failed)" : ""}<//>`}
      <${Card} title="Last checkpoint">${info.rdb_last_save_time > 0 ? new Date(Number(info.rdb_last_save_time) * 1000).toLocaleString() : "none"}<//>
      <${Card} title="Connections (Redis)">${info.connected_clients} of ${info.maxclients}<//>
      <${Card} title="Blocked clients">${info.blocked_clients}<//>
      <${Card} title="Memory">${size(info.used_memory_rss)} of ${size(info.memory_budget) || "no limit"}<//>
      <${Card} title="Keys">${Object.entries(info).filter(([name]) => /^db\d+$/.test(name)).map(([name, text]) => `${name}: ${count(/keys=(\d+)/.exec(text)?.[1] ?? 0)}`).join(", ") || "0"}<//>
      <${Card} title="Hits and misses">${count(info.keyspace_hits ?? 0)} / ${count(info.keyspace_misses ?? 0)}<//>
      <${Card} title="Expired, evicted">${count(info.expired_keys ?? 0)} / ${count(info.evicted_keys ?? 0)}<//>
      <${Card} title="Version, uptime">${info.quartet_version} · ${(Number(info.uptime_in_seconds) / 3600).toFixed(1)} h<//>
      ${isOperator && latest.quartet_disk_full > 0 && html`<${Card} title="Disk">full<//>`}
    </div>`;
}

function Slow({ database }) {
  const { value, error, loading, reload } = useLoaded(() => api.redis(database, "SLOWLOG", "GET", "50"), [database]);
  return html`<section><h2>Slow commands of Redis</h2><button class="small" onClick=${reload}>Refresh</button> <${Busy} when=${loading} />
    <${Problem} error=${error} />
    <div class="scroll"><table id="slow"><thead><tr><th>when</th><th class="number">ms</th><th>command</th><th class="optional">client</th></tr></thead>
      <tbody>${(value ?? []).map(([id, time, micros, words, client]) => html`<tr key=${id}><td>${new Date(time * 1000).toLocaleString()}</td><td class="number">${(micros / 1000).toFixed(1)}</td><td class="mono">${words.map(shown).join(" ")}</td><td class="optional">${shown(client ?? "")}</td></tr>`)}</tbody>
    </table></div>
    ${value?.length === 0 && html`<p class="dim">None took longer than <code>slowlog-log-slower-than</code>.</p>`}</section>`;
}

const SAMPLE_MAX = 20_000;

/** The biggest of the keys that a bounded walk sees. */
function Biggest({ database }) {
  const [found, setFound] = useState(null);
  const [act, { busy, error }] = useAct();
  const isOver = useRef(false);
  useEffect(() => () => void (isOver.current = true), []);
  const search = () =>
    act(async () => {
      let cursor = "0";
      let seen = 0;
      let top = [];
      do {
        const [next, names] = await api.redis(database, "SCAN", cursor, "COUNT", "500");
        const replies = await api.redisAll(database, names.flatMap((name) => [["MEMORY", "USAGE", name, "SAMPLES", "5"], ["TYPE", name]]));
        names.forEach((name, index) => top.push({ name, bytes: Number(replies[2 * index].result ?? 0), type: replies[2 * index + 1].result }));
        top = top.sort((a, b) => b.bytes - a.bytes).slice(0, 20);
        seen += names.length;
        cursor = next;
        setFound({ top, seen, isWhole: cursor === "0" });
      } while (cursor !== "0" && seen < SAMPLE_MAX && !isOver.current);
    });
  return html`<section><h2>Biggest keys</h2>
    <button id="biggest" disabled=${busy} onClick=${search}>Look</button> <${Busy} when=${busy} />
    ${found && html`<span class="dim">of ${count(found.seen)} keys${found.isWhole ? ", which are all" : ""}</span>`}
    <${Problem} error=${error} />
    <div class="scroll"><table><tbody>${(found?.top ?? []).map(
      ({ name, bytes, type }) => html`<tr key=${shown(name)}><td class="mono"><a href=${link("redis", database, shown(name), shown(name))}>${shown(name)}</a></td><td>${type}</td><td class="number">${size(bytes)}</td></tr>`,
    )}</tbody></table></div></section>`;
}

/** The nodes of the cluster, as its home sees them, looked at again and again. */
function Nodes() {
  const { points, error } = useSeries(() => api.admin("GET", "cluster"));
  const cluster = points.at(-1)?.values;
  const part = (node) => (!node.is_running ? "away" : node.is_home ? `home, ${node.condition}` : node.condition);
  const figures = (node) => [count(node.lag_records), node.lag_milliseconds, count(node.synced ?? 0), node.clock_ahead_milliseconds ?? "not known"];
  return html`<section id="nodes"><h2>Nodes</h2><${Busy} when=${!cluster && !error} /><${Problem} error=${error} />
    ${cluster && html`<p class="dim">Term ${String(cluster.term)}, ${String(cluster.configured)} nodes configured</p>
    <div class="scroll"><table><thead><tr><th>node</th><th>address</th><th>part</th><th class="number">records behind</th><th class="number">ms behind</th><th class="number">on disk up to</th><th class="number">clock ahead, ms</th></tr></thead>
      <tbody>${cluster.nodes.map((node) => html`<tr key=${node.id}><td>${node.name}</td><td class="mono">${node.address ?? ""}</td><td>${part(node)}</td>${node.is_running && figures(node).map((figure) => html`<td class="number">${String(figure)}</td>`)}</tr>`)}</tbody>
    </table></div>`}</section>`;
}

/** Requests of all layers in a quarter of a second or more, by what was asked: the histograms of the metrics. */
const SLOW_SECONDS = 0.262144;

async function slowest() {
  const found = new Map();
  for (const { name, labels, value } of samples(await api.metrics())) {
    const part = /^quartet_request_duration_seconds_(bucket|sum|count)$/.exec(name)?.[1];
    if (!part || (part === "bucket" && Number(labels.le) !== SLOW_SECONDS)) continue;
    const key = `${labels.layer} ${labels.operation}`;
    found.set(key, { ...found.get(key), ...labels, [part]: value });
  }
  return [...found.values()].map((row) => ({ ...row, slow: row.count - row.bucket })).sort((a, b) => b.slow - a.slow || b.sum / b.count - a.sum / a.count).slice(0, 20);
}

function SlowOperations() {
  const { value, error, loading, reload } = useLoaded(slowest, []);
  return html`<section><h2>Slow operations of all layers</h2><button class="small" onClick=${reload}>Refresh</button> <${Busy} when=${loading} />
    <${Problem} error=${error} />
    <div class="scroll"><table id="slow-operations"><thead><tr><th>layer</th><th>operation</th><th class="number">mean, ms</th><th class="number">of ¼ s or more</th><th class="number">requests</th></tr></thead>
      <tbody>${(value ?? []).map((row) => html`<tr key=${row.layer + row.operation}><td>${row.layer}</td><td class="mono">${row.operation}</td><td class="number">${((row.sum / row.count) * 1000).toFixed(2)}</td><td class="number">${count(row.slow)}</td><td class="number">${count(row.count)}</td></tr>`)}</tbody>
    </table></div>
    <p class="dim">Since the start, without the wait for the disk.</p></section>`;
}

/** The latest requests of all layers that took long, by their shape: no value of theirs. */
function LatestSlowRequests() {
  const { value, error, loading, reload } = useLoaded(() => api.admin("GET", "slow-requests"), []);
  const rows = value?.slow_requests ?? [];
  return html`<section><h2>Latest slow requests of all layers</h2><button class="small" onClick=${reload}>Refresh</button> <${Busy} when=${loading} />
    <${Problem} error=${error} />
    <div class="scroll"><table id="slow-requests"><thead><tr><th>when</th><th>layer</th><th>operation</th><th>database</th><th class="number">ms</th><th class="optional">shape</th></tr></thead>
      <tbody>${rows.map((row, at) => html`<tr key=${at}><td>${new Date(row.at_seconds * 1000).toLocaleString()}</td><td>${row.layer}</td><td class="mono">${row.operation}</td><td>${row.database}</td><td class="number">${count(row.milliseconds)}</td><td class="mono optional">${row.shape}</td></tr>`)}</tbody>
    </table></div>
    ${value && rows.length === 0 && html`<p class="dim">${value.slower_than_milliseconds === null ? "None is kept: --slow-request-milliseconds is off." : `None took ${count(value.slower_than_milliseconds)} ms or longer (--slow-request-milliseconds).`}</p>`}</section>`;
}

export function Operations({ database, session }) {
  const here = session.databases.find((each) => each.name === database);
  if (!here?.redis) return html`<p>These figures need a Redis credential for <b>${database}</b>. <a href="#/login">Add one</a>.</p>`;
  return html`<h2>Operations: ${database}</h2>${session.cluster && session.operator && database === "default" && html`<${Nodes} />`}<${Charts} database=${database} session=${session} />
    <div class="split"><${Slow} database=${database} /><${Biggest} database=${database} /></div>
    ${session.operator && database === "default" && html`<${SlowOperations} /><${LatestSlowRequests} />`}`;
}
