// The pad for DynamoDB: an operation with its input, or statements of PartiQL.

import * as api from "./api.js";
import { toData } from "./fql.js";
import { oneByOne } from "./ui.js";

export const OPERATIONS = "BatchExecuteStatement BatchGetItem BatchWriteItem CreateTable DeleteItem DeleteTable DescribeContinuousBackups DescribeEndpoints DescribeLimits DescribeStream DescribeTable DescribeTimeToLive ExecuteStatement ExecuteTransaction GetItem GetRecords GetShardIterator ListStreams ListTables ListTagsOfResource PutItem Query Scan TagResource TransactGetItems TransactWriteItems UntagResource UpdateItem UpdateTable UpdateTimeToLive".split(" ");
const METERED = /Item|Query|Scan|Execute/;
const PARTIQL = "BEGINS_WITH CONTAINS DELETE EXISTS FROM INSERT INTO MISSING RETURNING SELECT SET UPDATE VALUE WHERE".split(" ");

export const names = async () => OPERATIONS;
export const wordsOfPartiql = async () => PARTIQL;

/** `PutItem {…}`: the name of an operation and its input, in JSON or as JavaScript writes objects. */
export function operation(text) {
  const match = /^\s*(?:aws\s+dynamodb\s+)?([A-Za-z]+)\s*(\{[^]*)?$/.exec(text);
  if (!match) throw new Error("an operation and its input: PutItem { TableName: … }");
  const name = OPERATIONS.find((known) => known.toLowerCase() === match[1].toLowerCase());
  if (!name) throw new Error(`there is no operation ${match[1]}`);
  return { name, input: match[2] ? toData(match[2]) : {} };
}

const total = (consumed) => [consumed ?? []].flat().reduce((sum, each) => sum + (each.CapacityUnits ?? 0), 0);

/** Runs `list`, each by `ask`, and adds up what was consumed. */
async function outcome(list, ask) {
  const began = performance.now();
  let units = 0;
  const parts = await oneByOne(list, (_, index) => `statement ${index + 1}`, async (each) => {
    const { ConsumedCapacity, ...rest } = await ask(each);
    units += total(ConsumedCapacity);
    return JSON.stringify(rest, null, 2);
  });
  return { parts, gap: "\n\n", cost: { "capacity units": units, "ms with the network": (performance.now() - began).toFixed(1) } };
}

export async function run({ database, text }) {
  const { name, input } = operation(text);
  return outcome([input], () => api.dynamodb(database, name, METERED.test(name) ? { ReturnConsumedCapacity: "TOTAL", ...input } : input));
}

/** The statements of a text: semicolons end them, but not inside quotes. */
export function statements(text) {
  const parts = text.match(/(?:'(?:[^']|'')*'|"(?:[^"]|"")*"|[^;'"]|['"])+/g) ?? [];
  return parts.map((part) => part.trim()).filter((part) => part !== "");
}

export async function runPartiql({ database, text }) {
  const list = statements(text);
  if (list.length === 0) throw new Error("there is no statement");
  return outcome(list, (Statement) => api.dynamodb(database, "ExecuteStatement", { Statement, ReturnConsumedCapacity: "TOTAL" }));
}
