// Every method of @upstash/redis against the server's own list of commands: what a newer client sends is noticed when it is installed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Redis as Upstash } from "@upstash/redis";
import { Redis } from "ioredis";

import { host, httpPort, port } from "./target.js";

// Methods that send no command of their own.
const WITHOUT_COMMAND = ["addTelemetry", "autoPipeline", "createScript", "exec", "multi", "pipeline", "use"];
const COMMANDS = {
  clientSetinfo: "client|setinfo",
  evalRo: "eval_ro",
  evalshaRo: "evalsha_ro",
  scriptExists: "script|exists",
  scriptFlush: "script|flush",
  scriptLoad: "script|load",
  "functions.call": "fcall",
  "functions.callRo": "fcall_ro",
};
// Arrays of Redis 8.8.
const NOT_SERVED =
  "arcount ardel ardelrange arget argetrange argrep arinfo arinsert arlastitems arlen armget armset arnext arop arring arscan arseek arset".split(" ");
// Upstash's own, beside Redis: `redis.search` and `redis.vector`.
const GROUPS = ["json", "functions"];

function methods() {
  const redis = new Upstash({ url: "http://127.0.0.1:1", token: "unused", enableTelemetry: false, enableAutoPipelining: false });
  const found = new Set();
  for (let layer = redis; layer !== Object.prototype; layer = Object.getPrototypeOf(layer)) {
    for (const name of Object.getOwnPropertyNames(layer)) {
      if (name !== "constructor" && typeof redis[name] === "function") found.add(name);
    }
  }
  for (const group of GROUPS) {
    for (const name of Object.keys(redis[group])) found.add(`${group}.${name}`);
  }
  WITHOUT_COMMAND.forEach((name) => found.delete(name));
  return [...found].sort();
}

function commandOf(method) {
  return COMMANDS[method] ?? method.replace("functions.", "function|").toLowerCase();
}

test("every method's command is served", { skip: !httpPort }, async () => {
  const found = methods();
  assert.ok(found.length > 180, `${found.length} methods`);
  const redis = new Redis({ host, port });
  try {
    const described = await redis.call("COMMAND", "INFO", ...found.map(commandOf));
    const missing = found.filter((_, index) => described[index] === null);
    assert.deepEqual(missing, NOT_SERVED);
  } finally {
    redis.disconnect();
  }
});
