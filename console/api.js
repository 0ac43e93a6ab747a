// Everything that the page asks the server: the protocols of the layers, with the session in the place of a credential.

import { fromBase64, percentEncoded } from "./bytes.js";
import { parsed } from "./exact.js";

const PROOF = "quartet-proof";
let proof = localStorage.getItem(PROOF) ?? "";
let whenOver = () => {};

/** An answer that says no. */
export class Refused extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

export function onSessionOver(act) {
  whenOver = act;
}

async function ask(path, { method = "POST", body, headers = {}, signal } = {}) {
  const answer = await fetch("/console/api/" + path, {
    method,
    body,
    signal,
    credentials: "same-origin",
    cache: "no-store",
    headers: { "x-quartet-proof": proof, ...headers },
  });
  if (answer.status === 401) {
    const text = await answer.clone().text();
    if (text.includes('"log in first"')) whenOver();
  }
  return answer;
}

async function asJson(answer) {
  const text = await answer.text();
  try {
    return text ? parsed(text) : null;
  } catch {
    throw new Refused(answer.status, text.slice(0, 500) || `the server answered ${answer.status}`);
  }
}

async function own(path, method, given) {
  const headers = given === undefined ? {} : { "content-type": "application/json" };
  const answer = await ask(path, { method, headers, body: given === undefined ? undefined : JSON.stringify(given) });
  const body = await asJson(answer);
  if (!answer.ok) throw new Refused(answer.status, body?.error ?? `the server answered ${answer.status}`, body);
  return body;
}

// ---- the session

export const start = () => own("start", "GET");

/** The session, or `null` for a visitor who has none. */
export const session = () => own("session", "GET");

export async function login(credential, user = "") {
  const answer = await own("login", "POST", { credential, user });
  if (answer.proof) {
    proof = answer.proof;
    localStorage.setItem(PROOF, proof);
  }
}

export async function logout() {
  await ask("logout");
  proof = "";
  localStorage.removeItem(PROOF);
}

// ---- the admin API and metrics

export const admin = (method, path, given) => own("admin/v1/" + path, method, given);

export const metrics = async () => (await ask("metrics", { method: "GET" })).text();

// ---- Redis

const decoded = (reply) => {
  if (Array.isArray(reply)) return reply.map(decoded);
  return typeof reply === "string" && reply !== "OK" ? fromBase64(reply) : reply;
};

const BASE64 = { "upstash-encoding": "base64", "content-type": "application/json" };

const asSegment = (word) => percentEncoded(word instanceof Uint8Array ? word : String(word));

/**
 * One command; its reply, or a refusal. Bytes that are no text stand in the address, which is
 * bounded; if they are the last word they are the body instead.
 */
export async function redis(database, ...words) {
  const base = `redis/${encodeURIComponent(database)}/`;
  const last = words.at(-1);
  const isText = words.every((word) => !(word instanceof Uint8Array));
  const answer = isText
    ? await ask(base, { headers: BASE64, body: JSON.stringify(words.map(String)) })
    : last instanceof Uint8Array && last.length > 0
      ? await ask(base + words.slice(0, -1).map(asSegment).join("/"), { headers: { "upstash-encoding": "base64" }, body: last })
      : await ask(base + words.map(asSegment).join("/"), { headers: BASE64 });
  const body = await asJson(answer);
  if (body?.error !== undefined) throw new Refused(answer.status, body.error, body);
  return decoded(body.result);
}

/** Several commands; for each `{result}` or `{error}`. With `isTransaction` all of them or none. */
export async function redisAll(database, commands, isTransaction = false) {
  if (commands.length === 0) return [];
  const isText = commands.flat().every((word) => !(word instanceof Uint8Array));
  if (!isText) {
    const settle = (words) => redis(database, ...words).then((result) => ({ result }), (error) => ({ error: error.message }));
    const replies = [];
    for (const words of commands) replies.push(await settle(words));
    return replies;
  }
  const path = `redis/${encodeURIComponent(database)}/${isTransaction ? "multi-exec" : "pipeline"}`;
  const answer = await ask(path, { headers: BASE64, body: JSON.stringify(commands.map((words) => words.map(String))) });
  const body = await asJson(answer);
  if (!Array.isArray(body)) throw new Refused(answer.status, body?.error ?? `the server answered ${answer.status}`, body);
  return body.map((reply) => (reply.error === undefined ? { result: decoded(reply.result) } : reply));
}

// ---- FaunaDB

const FAUNA_COSTS = { "x-read-ops": "read ops", "x-write-ops": "write ops", "x-compute-ops": "compute ops", "x-byte-read-ops": "bytes read (KB)", "x-byte-write-ops": "bytes written (KB)", "x-storage-bytes-read": "storage read", "x-storage-bytes-write": "storage written", "x-txn-retries": "retries", "x-query-time": "ms in the server" };

/** What an expression is worth, and what it cost. `role` is what stands behind the secret: `server`, `child:admin`, `@role/x`. */
export async function fauna(database, expression, role = "") {
  const headers = { "content-type": "application/json", "x-fauna-driver": "console", "x-faunadb-api-version": "4" };
  if (role) headers["x-quartet-role"] = role;
  const body = typeof expression === "string" ? expression : JSON.stringify(expression);
  const answer = await ask(`fauna/${encodeURIComponent(database)}/`, { headers, body });
  const value = await asJson(answer);
  const cost = {};
  for (const [header, name] of Object.entries(FAUNA_COSTS)) {
    const told = answer.headers.get(header);
    if (told !== null && told !== "0") cost[name] = told;
  }
  if (!answer.ok) {
    const first = value?.errors?.[0];
    throw new Refused(answer.status, first ? `${first.code}: ${first.description}` : `the server answered ${answer.status}`, value);
  }
  return { value: value.resource, cost };
}

// ---- DynamoDB

export async function dynamodb(database, operation, given) {
  const service = /^(ListStreams|DescribeStream|GetShardIterator|GetRecords)$/.test(operation) ? "DynamoDBStreams_20120810" : "DynamoDB_20120810";
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": `${service}.${operation}` };
  const body = typeof given === "string" ? given : JSON.stringify(given);
  const answer = await ask(`dynamodb/${encodeURIComponent(database)}/`, { headers, body });
  const value = await asJson(answer);
  if (!answer.ok) {
    const kind = String(value?.__type ?? "").split("#").pop();
    throw new Refused(answer.status, `${kind || answer.status}: ${value?.message ?? value?.Message ?? value?.error ?? ""}`, value);
  }
  return value;
}

// ---- the key-value layer

export const keyvalue = (database, asked) => own(`keyvalue/${encodeURIComponent(database)}/`, "POST", asked);

// ---- what goes on

/** Gives `tell` each piece of text that an answer consists of, until it ends or `signal` is aborted. */
export async function follow(path, options, tell, signal) {
  const answer = await ask(path, { ...options, signal });
  if (!answer.ok) {
    const body = await answer.text();
    let message = body;
    try {
      const told = JSON.parse(body);
      message = told.error ?? told.errors?.[0]?.description ?? body;
    } catch {
      // It is shown as it came.
    }
    throw new Refused(answer.status, message);
  }
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    while (true) {
      const { done, value } = await reader.read();
      if (done) return;
      tell(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** What each transaction did to names that begin with `prefix` (an encoded one), from version `from` on, or from now on. */
export function followChanges(database, { layer, prefix = "", from }, tell, signal) {
  let rest = "";
  const since = from === undefined ? "" : `&from=${from}`;
  const read = (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines.filter(Boolean)) {
      const told = parsed(line);
      if (told.error) throw new Refused(200, told.error, told);
      tell(told);
    }
  };
  return follow(`changes/${encodeURIComponent(database)}?layer=${layer}&prefix=${prefix}${since}`, { method: "GET" }, read, signal);
}

/** Messages of channels that fit the patterns, as `[pattern, channel, payload]`. */
export function followRedis(database, pattern, tell, signal) {
  let rest = "";
  const path = `redis/${encodeURIComponent(database)}/psubscribe/${percentEncoded(pattern)}`;
  const read = (text) => {
    const events = (rest + text).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const line = event.split("\n").map((part) => part.replace(/^data: ?/, "")).join("\n");
      tell(line);
    }
  };
  return follow(path, { method: "POST", headers: { accept: "text/event-stream" } }, read, signal);
}

/** Events of a document or a set, one object each. */
export function followFauna(database, expression, role, tell, signal) {
  let rest = "";
  const headers = { "content-type": "application/json", "x-faunadb-api-version": "4" };
  if (role) headers["x-quartet-role"] = role;
  const read = (text) => {
    const lines = (rest + text).split(/\r?\n/);
    rest = lines.pop();
    for (const line of lines) if (line.trim()) tell(parsed(line));
  };
  return follow(`fauna/${encodeURIComponent(database)}/stream?fields=action,document,prev,diff`, { headers, body: JSON.stringify(expression) }, read, signal);
}
