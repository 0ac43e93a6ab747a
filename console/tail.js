// What happens now: keyspace events and messages of Redis, streams of FaunaDB, rows of the key-value layer, items of DynamoDB.

import { html, useEffect, useRef, useState } from "./html.js";
import * as api from "./api.js";
import { shownValue, toWire } from "./fql.js";
import { roleOf } from "./fauna.js";
import { bytesOf } from "./history.js";
import { fromPrintable, printable } from "./tuples.js";
import { percentEncoded } from "./bytes.js";
import { Problem, Tabs, useAct, useLoaded } from "./ui.js";

const EVENTS_MAX = 500;
const FLAGS_MS = 5000;

/** Events of a source while somebody looks; `open` follows it and gives each to `tell`. `silent` says why there will be none. */
function Live({ open, inputs, id, silent = "" }) {
  const [isOn, turn] = useState(true);
  const [events, setEvents] = useState([]);
  const [error, setError] = useState(null);
  const number = useRef(0);
  useEffect(() => {
    if (!isOn) return;
    const stop = new AbortController();
    setEvents([]);
    setError(null);
    const tell = (text) => setEvents((old) => [{ number: number.current++, time: new Date(), text }, ...old].slice(0, EVENTS_MAX));
    open(tell, stop.signal).then(
      () => turn(false),
      (error) => {
        if (stop.signal.aborted) return;
        setError(error);
        turn(false);
      },
    );
    return () => stop.abort();
  }, [isOn, ...inputs]);
  return html`<div class="row"><button onClick=${() => turn(!isOn)}>${isOn ? "Stop" : "Start"}</button>
      <span class="dim" role="status">${isOn ? "listening" : "stopped"}, ${events.length} events${isOn && silent && ` · ${silent}`}</span></div>
    <${Problem} error=${error} />
    <div class="scroll"><table id=${id}><tbody>${events.map(
      (event) => html`<tr key=${event.number}><td class="dim">${event.time.toLocaleTimeString()}</td><td class="mono"><span class="event">${event.text}</span></td></tr>`,
    )}</tbody></table></div>`;
}

const escaped = (text) => text.replace(/[*?[\]\\]/g, "\\$&");

function RedisTail({ database, name }) {
  const [kind, choose] = useState("keys");
  const [pattern, setPattern] = useState(name ? escaped(name) : "*");
  const [settled, settle] = useState(pattern);
  const [act, { error }] = useAct();
  const flags = useLoaded(async () => (await api.redis(database, "CONFIG", "GET", "notify-keyspace-events"))[1] ?? "", [database]);
  // Somebody else may change it while the page is open.
  useEffect(() => {
    const looking = setInterval(flags.reload, FLAGS_MS);
    return () => clearInterval(looking);
  }, []);
  // K is for channels of keys, and a letter more for what is told of.
  const isTold = /K/.test(flags.value ?? "") && /[^KE]/.test(flags.value ?? "");
  const isSilent = kind === "keys" && flags.value !== undefined && !isTold;
  const channel = kind === "keys" ? `__keyspace@0__:${settled}` : settled;
  const shownEvent = (line) => {
    if (!line.startsWith("pmessage,")) return null;
    const rest = line.slice("pmessage,".length + channel.length + 1);
    return kind === "keys" ? rest.replace(/^__keyspace@0__:/, "").replace(/,([^,]*)$/, "  $1") : rest;
  };
  const open = (tell, signal) => api.followRedis(database, channel, (line) => shownEvent(line) !== null && tell(shownEvent(line)), signal);
  const turnOn = () =>
    act(async () => {
      await api.redis(database, "CONFIG", "SET", "notify-keyspace-events", "KEA");
      flags.reload();
    });
  return html`<section><h2>Redis, as it happens</h2>
    <${Tabs} label="Source of events" names=${["keys", "messages"]} chosen=${kind} onChoose=${choose} />
    <form class="row" onSubmit=${(event) => { event.preventDefault(); settle(pattern); }}>
      <input class="grow mono" id="pattern" aria-label="Pattern" value=${pattern} onInput=${(event) => setPattern(event.target.value)} /><button>Listen</button>
    </form>
    ${isSilent &&
    html`<p class="problem" role="alert">Notifications are off. The server sends events of keys only if <code>notify-keyspace-events</code> is set. <button id="turn-on" onClick=${turnOn}>Turn it on</button></p>`}
    <${Problem} error=${error ?? flags.error} />
    <${Live} id="events" open=${open} inputs=${[database, channel]} silent=${isSilent ? "notifications are off" : ""} /></section>`;
}

function FaunaTail({ database, path, source }) {
  const [text, setText] = useState(source ?? "");
  const [settled, settle] = useState(source ?? "");
  const open = async (tell, signal) => {
    const [expression] = toWire(settled);
    await api.followFauna(database, expression, roleOf(path), (event) => tell(shownValue(event)), signal);
  };
  return html`<section><h2>FaunaDB, as it happens</h2>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); settle(text); }}>
      <input class="grow mono" id="source" aria-label="Document or set" placeholder='Documents(Collection("…")) or Ref(Collection("…"), "…")' value=${text} onInput=${(event) => setText(event.target.value)} /><button>Listen</button>
    </form>
    ${settled !== "" && html`<${Live} id="events" open=${open} inputs=${[database, path, settled]} />`}</section>`;
}

const own = (change, member) => printable(bytesOf(change, member) ?? new Uint8Array());

/** A change of the key-value layer as a line, and one of DynamoDB. */
function shownRow(change) {
  if (change.op === "clear_range") return `clearrange ${own(change, "start")} ${own(change, "end")}`;
  if (change.op === "clear") return `clear ${own(change, "key")}`;
  const value = change.value_bytes === undefined ? own(change, "value") : `(${change.value_bytes} bytes)`;
  return `set ${own(change, "key")} ${value}`;
}

const shownItem = ({ op, table, item, key }) => `${op} ${table} ${JSON.stringify(item ?? key ?? null)}`;

/** What transactions do, of the change feed; a prefix is that of a key or of a table. */
function ChangesTail({ database, layer, title, prefix = "", read, show, hint }) {
  const [text, setText] = useState(prefix);
  const [settled, settle] = useState(prefix);
  const open = async (tell, signal) => {
    const encoded = percentEncoded(read(settled));
    await api.followChanges(database, { layer, prefix: encoded }, ({ changes = [] }) => changes.forEach((change) => tell(show(change))), signal);
  };
  return html`<section><h2>${title}, as it happens</h2>
    <form class="row" onSubmit=${(event) => { event.preventDefault(); settle(text); }}>
      <input class="grow mono" id="prefix" aria-label=${hint} placeholder=${hint} value=${text} onInput=${(event) => setText(event.target.value)} /><button>Listen</button>
    </form>
    <${Live} id="events" open=${open} inputs=${[database, layer, settled]} /></section>`;
}

/** Names of tabs, and which layer of a database each is of. */
const SOURCES = { Redis: "redis", FaunaDB: "fauna", DynamoDB: "dynamodb", "Key-value": "keyvalue" };

function Source({ name, database, parts: [layer, first, second] }) {
  const mine = layer === SOURCES[name];
  if (name === "FaunaDB") return html`<${FaunaTail} key=${second} database=${database} path=${(mine && first) || ""} source=${mine ? second : undefined} />`;
  if (name === "DynamoDB") return html`<${ChangesTail} key=${first} database=${database} layer="dynamodb" title="DynamoDB" prefix=${mine ? first : ""} read=${(text) => text} show=${shownItem} hint="tables that begin with …" />`;
  if (name === "Key-value") return html`<${ChangesTail} key=${first} database=${database} layer="keyvalue" title="Rows" prefix=${mine ? first : ""} read=${fromPrintable} show=${shownRow} hint="keys that begin with … (\\xNN for bytes)" />`;
  return html`<${RedisTail} key=${first} database=${database} name=${mine ? first : undefined} />`;
}

export function Tail({ database, parts, session }) {
  const here = session.databases.find((each) => each.name === database) ?? {};
  const names = Object.keys(SOURCES).filter((name) => here[SOURCES[name]]);
  const wanted = Object.keys(SOURCES).find((name) => SOURCES[name] === parts[0]);
  const [chosen, choose] = useState(wanted);
  useEffect(() => void (wanted && choose(wanted)), [parts.join("/")]);
  const name = names.includes(chosen) ? chosen : names[0];
  if (!name) return html`<p>This session has no credential for a layer of <b>${database}</b> that has a stream of changes.</p>`;
  return html`<${Tabs} label="Layer" names=${names} chosen=${name} onChoose=${choose} />
    <${Source} key=${name} name=${name} database=${database} parts=${parts} />`;
}
