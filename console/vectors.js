// Vectors of an index: numbers, and the bytes that stand for them, the least significant first.

const bitsOf = (number) => new Uint32Array(Float32Array.of(number).buffer)[0];

/** A number of 16 bits: sign, 5 of exponent, 10 of fraction. */
function halfOf(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}

function bitsOfHalf(number) {
  const sign = number < 0 ? 0x8000 : 0;
  const size = Math.abs(number);
  if (size >= 65520) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size)), -14);
  return sign | (((exponent + 14) << 10) + Math.round(size / 2 ** (exponent - 10)));
}

const TYPES = {
  FLOAT64: { bytes: 8, read: (view, at) => view.getFloat64(at, true), write: (view, at, number) => view.setFloat64(at, number, true) },
  FLOAT32: { bytes: 4, read: (view, at) => view.getFloat32(at, true), write: (view, at, number) => view.setFloat32(at, number, true) },
  FLOAT16: { bytes: 2, read: (view, at) => halfOf(view.getUint16(at, true)), write: (view, at, number) => view.setUint16(at, bitsOfHalf(number), true) },
  BFLOAT16: {
    bytes: 2,
    read: (view, at) => new Float32Array(Uint32Array.of(view.getUint16(at, true) << 16).buffer)[0],
    write: (view, at, number) => view.setUint16(at, (bitsOf(number) + 0x8000) >>> 16, true),
  },
  INT8: { bytes: 1, read: (view, at) => view.getInt8(at), write: (view, at, number) => view.setInt8(at, number) },
  UINT8: { bytes: 1, read: (view, at) => view.getUint8(at), write: (view, at, number) => view.setUint8(at, number) },
};

/** The bytes of numbers, as an index with vectors of this type takes them. */
export function encoded(numbers, type) {
  const { bytes, write } = TYPES[type];
  const view = new DataView(new ArrayBuffer(numbers.length * bytes));
  numbers.forEach((number, index) => write(view, index * bytes, number));
  return new Uint8Array(view.buffer);
}

/** The first numbers of a vector's bytes, and the count of all; `null` if they are of no such type. */
export function decoded(word, type, most) {
  const found = TYPES[type];
  if (!found || word.length === 0 || word.length % found.bytes !== 0) return null;
  const total = word.length / found.bytes;
  const view = new DataView(word.buffer, word.byteOffset, word.byteLength);
  return { total, first: Array.from({ length: Math.min(most, total) }, (_, index) => found.read(view, index * found.bytes)) };
}
