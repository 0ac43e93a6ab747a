// The pad for FaunaDB: FQL as people type it, or the wire's JSON.

import * as api from "./api.js";
import { functionNames, shownValue, toWire } from "./fql.js";

export const names = async () => functionNames;

export async function run({ database, text, role }) {
  const statements = toWire(text);
  if (statements.length === 0) throw new Error("there is no query");
  const shown = [];
  const cost = {};
  for (const statement of statements) {
    const outcome = await api.fauna(database, statement, role);
    shown.push(shownValue(outcome.value));
    for (const [what, number] of Object.entries(outcome.cost)) cost[what] = (cost[what] ?? 0) + Number(number);
  }
  return { text: shown.join("\n\n"), cost, isError: false };
}
