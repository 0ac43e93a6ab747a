// The pad for Redis: lines as redis-cli takes them.

import * as api from "./api.js";
import { shown, splitLine } from "./bytes.js";
import { Digits } from "./exact.js";
import { atLine } from "./ui.js";

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

/** The commands of a text, one a line, as `{line, words}`; a line that begins with `#` is a remark. */
export function commands(text) {
  const lines = text.split("\n").map((text, index) => ({ line: index + 1, text: text.trim() }));
  return lines.filter(({ text }) => text !== "" && !text.startsWith("#")).map(({ line, text }) => ({ line, words: atLine(line, () => splitLine(text)) }));
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
  const sent = list.map(({ words }) => words);
  const replies = list.length === 1 ? [await api.redis(database, ...sent[0]).then((result) => ({ result }), refusal)] : await api.redisAll(database, sent);
  const millis = performance.now() - began;
  const where = (index) => (list.length > 1 ? `line ${list[index].line}: ` : "");
  return {
    parts: replies.map(({ result, error }, index) => (error === undefined ? { text: rendered(result) } : { text: `${where(index)}(error) ${error}`, isError: true })),
    cost: { "ms with the network": millis.toFixed(1), commands: String(list.length) },
  };
}

function refusal(error) {
  if (error.body?.error === undefined) throw error;
  return { error: error.message };
}
