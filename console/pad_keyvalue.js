// The pad for the key-value layer: commands as `quartet kv` and `fdbcli` take them.

import * as api from "./api.js";
import { behind, concat, fromBase64, printable, toBase64 } from "./tuples.js";
import { atLine, oneByOne } from "./ui.js";

const LIMIT = 25;
const LIMIT_MAX = 1000;

/** Each command: how it is written, and how many words may follow. */
const COMMANDS = {
  begin: ["begin", 0, 0],
  clear: ["clear KEY", 1, 1],
  clearrange: ["clearrange BEGIN END", 2, 2],
  commit: ["commit", 0, 0],
  get: ["get KEY", 1, 1],
  getrange: ["getrange BEGIN [END] [LIMIT]", 1, 3],
  getrangekeys: ["getrangekeys BEGIN [END] [LIMIT]", 1, 3],
  set: ["set KEY VALUE", 2, 2],
};

export const names = async () => Object.keys(COMMANDS);

/** The byte that an escape stands for, and how long it is written. */
function escaped(rest) {
  const found = /^\\(?:x([0-9a-fA-F]{2})|u00([0-9a-fA-F]{2})|(["\\ ;]))/.exec(rest);
  if (!found) throw new Error(`${rest.slice(0, 6)} is no escape: bytes are \\xNN`);
  return [found[3] === undefined ? parseInt(found[1] ?? found[2], 16) : found[3].charCodeAt(0), found[0].length];
}

/** The words of a text, command by command, each with its line: blanks separate words, lines and semicolons commands, and neither does in quotation marks. */
export function words(text) {
  const encoder = new TextEncoder();
  let line = 1;
  const commands = [];
  const begin = () => commands.push(Object.assign([], { line }));
  begin();
  let word = null;
  let isQuoted = false;
  const push = (bytes) => (word = [...(word ?? []), ...bytes]);
  const endWord = () => {
    if (word !== null) commands.at(-1).push(Uint8Array.from(word));
    word = null;
  };
  for (let at = 0; at < text.length; ) {
    const sign = String.fromCodePoint(text.codePointAt(at));
    if (sign === "\\") {
      const [byte, length] = atLine(line, () => escaped(text.slice(at)));
      push([byte]);
      at += length;
      continue;
    }
    at += sign.length;
    if (sign === "\n") line++;
    if (sign === '"') {
      isQuoted = !isQuoted;
      word ??= [];
    } else if (!isQuoted && (sign === ";" || sign === "\n")) {
      endWord();
      begin();
    } else if (!isQuoted && /\s/.test(sign)) endWord();
    else push(encoder.encode(sign));
  }
  if (isQuoted) throw new Error(`line ${commands.at(-1).line}: a quotation mark is not closed`);
  endWord();
  return commands.filter((command) => command.length > 0);
}

/** What is to be done, each `{name, …}`; between `begin` and `commit` a list of writes that land together. */
export function requests(text) {
  const list = [];
  let together = null;
  const take = (line, [first, ...given]) => {
    const name = printable(first).toLowerCase();
    if (!Object.hasOwn(COMMANDS, name)) throw new Error(`there is no command ${name} here: ${Object.keys(COMMANDS).join(", ")}`);
    const [usage, least, most] = COMMANDS[name];
    if (given.length < least || given.length > most) throw new Error(`it is written ${usage}`);
    if (name === "begin") {
      if (together) throw new Error("a transaction has already started");
      together = [];
    } else if (name === "commit") {
      if (!together) throw new Error("no transaction has started");
      list.push({ name: "write", line, writes: together });
      together = null;
    } else {
      const request = requestOf(name, given);
      if (together && !request.writes) throw new Error("between begin and commit only writes are taken here");
      if (together) together.push(...request.writes);
      else list.push({ ...request, line });
    }
  };
  for (const command of words(text)) atLine(command.line, () => take(command.line, command));
  if (together) throw new Error("the transaction is not committed");
  return list;
}

function requestOf(name, [first, second, third]) {
  if (name === "set") return { name: "write", writes: [{ name, key: first, value: second }] };
  if (name === "clear") return { name: "write", writes: [{ name, key: first }] };
  if (name === "clearrange") return { name: "write", writes: [{ name, key: first, end: second }] };
  if (name === "get") return { name, key: first };
  const isLimit = third === undefined && second !== undefined && /^\d+$/.test(printable(second)) && printable(first) !== "";
  const end = isLimit || second === undefined ? behind(first) : second;
  const limit = Number(printable((isLimit ? second : third) ?? new TextEncoder().encode(String(LIMIT))));
  if (!(limit >= 1 && limit <= LIMIT_MAX)) throw new Error(`a limit is a number from 1 to ${LIMIT_MAX}`);
  return { name, key: first, end, limit };
}

const quote = (bytes) => "`" + printable(bytes) + "'";
const written = { set: ({ key, value }) => ({ set: [toBase64(key), toBase64(value)] }), clear: ({ key }) => ({ clear: toBase64(key) }), clearrange: ({ key, end }) => ({ clear_range: [toBase64(key), toBase64(end)] }) };

async function carryOut(database, request) {
  if (request.name === "write") {
    const { version } = await api.keyvalue(database, { write: request.writes.map((write) => written[write.name](write)) });
    return `Committed (${version})`;
  }
  const isOne = request.name === "get";
  const end = isOne ? concat(request.key, [0]) : request.end;
  const { rows, more } = await api.keyvalue(database, { read: { begin: toBase64(request.key), end: toBase64(end), rows: isOne ? 1 : request.limit } });
  if (isOne) return rows.length === 0 ? `${quote(request.key)}: not found` : `${quote(request.key)} is ${quote(fromBase64(rows[0][1]))}`;
  const lines = rows.map(([key, value]) => (request.name === "getrange" ? `${quote(fromBase64(key))} is ${quote(fromBase64(value))}` : quote(fromBase64(key))));
  return [...lines, ...(more ? ["and more"] : []), ...(rows.length === 0 ? ["(no keys)"] : [])].join("\n");
}

export async function run({ database, text }) {
  const list = requests(text);
  if (list.length === 0) throw new Error("there is no command");
  const began = performance.now();
  const parts = await oneByOne(list, ({ line }) => `line ${line}`, (request) => carryOut(database, request));
  return { parts, cost: { "ms with the network": (performance.now() - began).toFixed(1), transactions: parts.length } };
}
