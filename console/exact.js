// Numbers that JavaScript would not keep: integers beyond 2^53, and doubles that look like integers, which FaunaDB tells apart.

/** A number by its digits. */
export class Digits {
  constructor(written) {
    this.written = written;
  }

  toString() {
    return this.written;
  }

  valueOf() {
    return Number(this.written);
  }

  toJSON() {
    if (!JSON.rawJSON) throw new Error(`this browser cannot send ${this.written} as it is written`);
    return JSON.rawJSON(this.written);
  }
}

/** A number as it was written, if that would be lost otherwise. */
export function number(written, value = Number(written)) {
  const isLost = Number.isInteger(value) && (!Number.isSafeInteger(value) || /[.eE]/.test(written) || Object.is(value, -0));
  return isLost ? new Digits(written) : value;
}

/** The value of a JSON text. */
export const parsed = (text) => JSON.parse(text, (_name, value, context) => (typeof value === "number" && context?.source ? number(context.source, value) : value));
