// Words of Redis are bytes. Here a word is a string where the bytes are UTF-8, and a Uint8Array where they are not.

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The word that Base64 stands for. */
export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
  return fromBytes(bytes);
}

export function fromBytes(bytes) {
  try {
    return strict.decode(bytes);
  } catch {
    return bytes;
  }
}

export const toBytes = (word) => (typeof word === "string" ? new TextEncoder().encode(word) : word);

/** A segment of a path, in which any byte may be. */
export function percentEncoded(word) {
  if (typeof word === "string") return encodeURIComponent(word);
  return Array.from(word, (byte) => "%" + byte.toString(16).padStart(2, "0")).join("");
}

const hexadecimal = (byte) => "\\x" + byte.toString(16).padStart(2, "0");

/** As a person may read it: what cannot be printed is escaped. */
export function shown(word) {
  if (word === null || word === undefined) return "(nil)";
  if (word instanceof Uint8Array) {
    return Array.from(word, (byte) => (byte >= 32 && byte < 127 && byte !== 92 ? String.fromCharCode(byte) : hexadecimal(byte))).join("");
  }
  return String(word);
}

/** As redis-cli writes it, and `splitLine` reads it. */
export function quoted(word) {
  if (typeof word === "string" && /^[\w:./@{}+*?=,-]+$/.test(word)) return word;
  const escapes = { "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\" };
  const text =
    typeof word === "string"
      ? word.replace(/["\\\n\r\t]/g, (sign) => escapes[sign]).replace(/[\x00-\x1f\x7f]/g, (sign) => hexadecimal(sign.charCodeAt(0)))
      : Array.from(word, (byte) => {
          const sign = String.fromCharCode(byte);
          return escapes[sign] ?? (byte >= 32 && byte < 127 ? sign : hexadecimal(byte));
        }).join("");
  return `"${text}"`;
}

/** The words of a line as redis-cli takes it: "…" with escapes, '…', blanks between. Throws on a quote that is open. */
export function splitLine(line) {
  const words = [];
  let index = 0;
  const escapes = { n: 10, r: 13, t: 9, b: 8, a: 7 };
  while (true) {
    while (index < line.length && /\s/.test(line[index])) index++;
    if (index >= line.length) return words;
    const bytes = [];
    const push = (sign) => bytes.push(...new TextEncoder().encode(sign));
    const first = line[index];
    if (first === '"' || first === "'") {
      index++;
      while (true) {
        if (index >= line.length) throw new Error("Invalid argument(s): a quote is not closed");
        const sign = String.fromCodePoint(line.codePointAt(index));
        index += sign.length;
        if (sign === first) break;
        if (sign !== "\\") push(sign);
        else if (first === "'") {
          if (line[index] === "'") index++, push("'");
          else push("\\");
        } else {
          const hex = /^x([0-9a-fA-F]{2})/.exec(line.slice(index));
          if (hex) {
            bytes.push(parseInt(hex[1], 16));
            index += 3;
          } else {
            const next = line[index++] ?? "\\";
            if (next in escapes) bytes.push(escapes[next]);
            else push(next);
          }
        }
      }
      if (index < line.length && !/\s/.test(line[index])) throw new Error("Invalid argument(s): a closing quote is followed by something");
    } else {
      while (index < line.length && !/\s/.test(line[index])) {
        const sign = String.fromCodePoint(line.codePointAt(index));
        push(sign);
        index += sign.length;
      }
    }
    words.push(fromBytes(new Uint8Array(bytes)));
  }
}

/** A map as RESP2 has it. */
export const asMap = (pairs) => new Map(Array.from({ length: pairs.length >> 1 }, (_, index) => [pairs[2 * index], pairs[2 * index + 1]]));

/** The name of a field as a query has it behind `@`. */
export const escapedName = (name) => shown(name).replace(/[\x20-\x2f:-@[-^`{-~]/g, "\\$&");

/** A text that two words share only if they are the same. */
export const identity = (word) => (typeof word === "string" ? "t" + word : "b" + shown(word));

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB", "TB"];
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) (value /= 1024), unit++;
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

export const count = (number) => Number(number).toLocaleString("en");
