// The pad for FaunaDB: FQL as people type it, or the wire's JSON.

import * as api from "./api.js";
import { functionNames, shownValue, toWire } from "./fql.js";
import { oneByOne } from "./ui.js";

export const names = async () => functionNames;

export async function run({ database, text, role }) {
  const statements = toWire(text);
  if (statements.length === 0) throw new Error("there is no query");
  const cost = {};
  const run = async (statement) => {
    const outcome = await api.fauna(database, statement, role);
    for (const [what, number] of Object.entries(outcome.cost)) cost[what] = (cost[what] ?? 0) + Number(number);
    return shownValue(outcome.value);
  };
  const errors = ({ body }) => (body?.errors ? "\n" + JSON.stringify(body.errors, null, 2) : "");
  return { parts: await oneByOne(statements, (_, index) => `query ${index + 1}`, run, errors), cost, gap: "\n\n" };
}
