// Keys of the key-value layer as a person reads them: printed as `fdbcli` prints them, and taken apart where they are tuples of
// FoundationDB's tuple layer (its "design/tuple.md").

const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export const fromHex = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));

export const toHex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

export function toBase64(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary);
}

export const fromBase64 = (base64) => Uint8Array.from(atob(base64), (sign) => sign.charCodeAt(0));

export const concat = (...parts) => Uint8Array.from(parts.flatMap((part) => [...part]));

/** Bytes of ASCII as they are, the others as `\xNN`. */
export const printable = (bytes) =>
  Array.from(bytes, (byte) => (byte === 92 ? "\\\\" : byte >= 32 && byte < 127 ? String.fromCharCode(byte) : "\\x" + byte.toString(16).padStart(2, "0"))).join("");

/** What `printable` wrote; other letters are UTF-8. Throws on an escape that is none. */
export function fromPrintable(written) {
  const bytes = [];
  const encoder = new TextEncoder();
  for (const [piece, hex, escaped] of written.matchAll(/\\x([0-9a-fA-F]{2})|\\(.?)|[^\\]+/gs)) {
    if (hex) bytes.push(parseInt(hex, 16));
    else if (escaped === "\\") bytes.push(92);
    else if (escaped !== undefined) throw new Error(`${piece} is no escape: bytes are \\xNN, and a backslash is \\\\`);
    else bytes.push(...encoder.encode(piece));
  }
  return Uint8Array.from(bytes);
}

/** The first key behind all that begin with `prefix`. */
export function behind(prefix) {
  const end = [...prefix];
  while (end.length > 0 && end.at(-1) === 255) end.pop();
  if (end.length === 0) return Uint8Array.of(255);
  end.push(end.pop() + 1);
  return Uint8Array.from(end);
}

/** Bytes as an element of a tuple. */
export const packBytes = (bytes) => Uint8Array.from([1, ...[...bytes].flatMap((byte) => (byte === 0 ? [0, 255] : [byte])), 0]);

/** The elements of a tuple as texts; `null`: these bytes are none. */
export function elements(bytes) {
  const found = [];
  let at = 0;
  while (at < bytes.length) {
    const read = element(bytes, at);
    if (read === null) return null;
    found.push(read.shown);
    at = read.next;
  }
  return found;
}

/** `("users", 42)`; `null`: these bytes are no tuple, or an empty one. */
export function asTuple(bytes) {
  const found = elements(bytes);
  return found === null || found.length === 0 ? null : `(${found.join(", ")})`;
}

function element(bytes, at) {
  const code = bytes[at];
  if (code === 0) return { shown: "null", next: at + 1 };
  if (code === 1 || code === 2) return string(bytes, at);
  if (code >= 0x0c && code <= 0x1c) return integer(bytes, at);
  if (code === 0x20 || code === 0x21) return double(bytes, at, code === 0x20 ? 4 : 8);
  if (code === 0x26 || code === 0x27) return { shown: String(code === 0x27), next: at + 1 };
  if (code === 0x30) return fixed(bytes, at, 16, (hex) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-"));
  if (code === 0x33) return fixed(bytes, at, 12, (hex) => `versionstamp ${hex}`);
  return null;
}

function string(bytes, at) {
  const content = [];
  for (let index = at + 1; index < bytes.length; index++) {
    if (bytes[index] !== 0) content.push(bytes[index]);
    else if (bytes[index + 1] === 255) content.push(bytes[index++]);
    else {
      const own = Uint8Array.from(content);
      if (bytes[at] === 1) return { shown: `b"${printable(own)}"`, next: index + 1 };
      try {
        return { shown: JSON.stringify(text.decode(own)), next: index + 1 };
      } catch {
        return null;
      }
    }
  }
  return null;
}

/** The code tells how many bytes there are, and that a number is negative: those are kept as their complement. */
function integer(bytes, at) {
  const length = Math.abs(bytes[at] - 0x14);
  if (at + 1 + length > bytes.length) return null;
  let number = 0n;
  for (let index = 1; index <= length; index++) number = (number << 8n) | BigInt(bytes[at + index]);
  if (bytes[at] < 0x14) number -= (1n << BigInt(8 * length)) - 1n;
  return { shown: String(number), next: at + 1 + length };
}

function double(bytes, at, length) {
  if (at + 1 + length > bytes.length) return null;
  const own = bytes.slice(at + 1, at + 1 + length);
  // A positive number has its sign turned, a negative one all its bits.
  const turned = own[0] & 128 ? own.map((byte, index) => (index === 0 ? byte ^ 128 : byte)) : own.map((byte) => byte ^ 255);
  const view = new DataView(turned.buffer);
  return { shown: String(length === 4 ? view.getFloat32(0) : view.getFloat64(0)), next: at + 1 + length };
}

function fixed(bytes, at, length, show) {
  if (at + 1 + length > bytes.length) return null;
  return { shown: show(toHex(bytes.slice(at + 1, at + 1 + length))), next: at + 1 + length };
}
