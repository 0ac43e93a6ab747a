// The pad for Redis: lines as redis-cli takes them.

import * as api from "./api.js";
import { shown, splitLine } from "./bytes.js";
import { Digits } from "./exact.js";

let known = null;

/** The names of commands, asked for once: each is either slow or fast. */
export async function names(database) {
  const list = async () => {
    const replies = await api.redisAll(database, [["ACL", "CAT", "slow"], ["ACL", "CAT", "fast"]]);
    return replies.flatMap(({ result }) => result ?? []).map((name) => name.replace("|", " ").toUpperCase()).sort();
  };
  known ??= list().catch(() => []);
  return known;
}

/** The commands of a text, one a line; a line that begins with `#` is a remark. */
export function commands(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.filter((line) => line !== "" && !line.startsWith("#")).map(splitLine);
}

/** A reply as redis-cli shows it. */
export function rendered(reply, depth = 0) {
  if (reply === null) return "(nil)";
  if (typeof reply === "number" || reply instanceof Digits) return `(integer) ${reply}`;
  if (!Array.isArray(reply)) return reply === "OK" ? reply : JSON.stringify(shown(reply)).replace(/\\\\x/g, "\\x");
  if (reply.length === 0) return "(empty array)";
  const width = String(reply.length).length;
  const indent = " ".repeat(depth);
  const line = (element, index) => `${index === 0 ? "" : indent}${String(index + 1).padStart(width)}) ${rendered(element, depth + width + 2)}`;
  return reply.map(line).join("\n");
}

export async function run({ database, text }) {
  const list = commands(text);
  if (list.length === 0) throw new Error("there is no command");
  const began = performance.now();
  const replies = list.length === 1 ? [await api.redis(database, ...list[0]).then((result) => ({ result }), refusal)] : await api.redisAll(database, list);
  const millis = performance.now() - began;
  const shownReplies = replies.map((reply) => (reply.error === undefined ? rendered(reply.result) : `(error) ${reply.error}`));
  return {
    text: shownReplies.join("\n"),
    isError: replies.some((reply) => reply.error !== undefined),
    cost: { "ms with the network": millis.toFixed(1), commands: String(list.length) },
  };
}

function refusal(error) {
  if (error.body?.error === undefined) throw error;
  return { error: error.message };
}
