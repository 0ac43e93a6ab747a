// What was typed in the pad, as a program.

import { shown } from "./bytes.js";
import { parse, toWire } from "./fql.js";
import { operation, statements } from "./pad_dynamodb.js";
import { requests } from "./pad_keyvalue.js";
import { commands } from "./pad_redis.js";

const text = (word) => JSON.stringify(shown(word));

function ofRedis({ session, database, text: given }) {
  let list;
  try {
    list = commands(given).map(({ words }) => words);
  } catch (error) {
    return { Python: `# ${error.message}` };
  }
  const url = (session.endpoints.redis ?? "redis://127.0.0.1:6379").replace("<root key>", "PASSWORD");
  const [host, port] = url.replace(/^.*[/@]/, "").split(":");
  const password = session.development && database === "default" ? "" : "PASSWORD";
  const words = (command) => command.map(text).join(", ");
  return {
    Python: ["import redis", "", `r = redis.Redis(host="${host}", port=${port}${password && `, password="${password}"`}, decode_responses=True)`, ...list.map((command) => `print(r.execute_command(${words(command)}))`)].join("\n"),
    JavaScript: ['import Redis from "ioredis";', "", `const redis = new Redis({ host: "${host}", port: ${port}${password && `, password: "${password}"`} });`, ...list.map((command) => `console.log(await redis.call(${words(command)}));`), "redis.disconnect();"].join("\n"),
    Go: ["package main", "", 'import (', '\t"context"', '\t"fmt"', "", '\t"github.com/redis/go-redis/v9"', ")", "", "func main() {", `\tclient := redis.NewClient(&redis.Options{Addr: "${host}:${port}"${password && `, Password: "${password}"`}})`, "\tctx := context.Background()", ...list.map((command) => `\tfmt.Println(client.Do(ctx, ${words(command)}).Result())`), "}"].join("\n"),
    Java: ["import redis.clients.jedis.*;", "", "class Main {", "  public static void main(String[] arguments) {", `    try (var jedis = new Jedis("${host}", ${port})) {`, ...(password ? [`      jedis.auth("${password}");`] : []), ...list.map(([name, ...rest]) => `      System.out.println(jedis.sendCommand(() -> ${text(name)}.getBytes()${rest.map((word) => `, ${text(word)}`).join("")}));`), "    }", "  }", "}"].join("\n"),
  };
}

// ---- FQL

const quoted = (given) => JSON.stringify(given);
const snake = (name) => (name === name.toUpperCase() ? name.toLowerCase() : name.replace(/([a-z])([A-Z])|([A-Z])([A-Z][a-z])/g, (_, a, b, c, d) => `${a ?? c}_${b ?? d}`).toLowerCase());
const PYTHON_WORDS = new Set(["map", "filter", "if", "not", "and", "or", "lambda", "max", "min", "sum", "all", "any", "abs", "format", "range", "pow", "round", "reversed", "is_none", "hex"]);
const pythonName = (name) => (PYTHON_WORDS.has(snake(name)) ? snake(name) + "_" : snake(name));

/** How a language writes each kind of a tree. */
const NOTATIONS = {
  JavaScript: {
    value: (value) => (value === undefined ? "undefined" : quoted(value)),
    array: (elements) => `[${elements.join(", ")}]`,
    object: (entries) => `{ ${entries.map(([key, value]) => `${quoted(key)}: ${value}`).join(", ")} }`,
    call: (name, given) => `q.${name}(${given.join(", ")})`,
    lambda: (names, body) => `q.Lambda(${names.length === 1 ? quoted(names[0]) : quoted(names)}, ${body})`,
    name: (name) => `q.Var(${quoted(name)})`,
  },
  Python: {
    value: (value) => ({ true: "True", false: "False", null: "None", undefined: "None" })[String(value)] ?? quoted(value),
    array: (elements) => `[${elements.join(", ")}]`,
    object: (entries) => `{${entries.map(([key, value]) => `${quoted(key)}: ${value}`).join(", ")}}`,
    call: (name, given) => `q.${pythonName(name)}(${given.join(", ")})`,
    lambda: (names, body) => `q.lambda_(${names.length === 1 ? quoted(names[0]) : quoted(names)}, ${body})`,
    name: (name) => `q.var(${quoted(name)})`,
  },
  Go: {
    value: (value) => (value === null || value === undefined ? "f.Null()" : quoted(value)),
    array: (elements) => `f.Arr{${elements.join(", ")}}`,
    object: (entries) => `f.Obj{${entries.map(([key, value]) => `${quoted(key)}: ${value}`).join(", ")}}`,
    call: (name, given) => `f.${name}(${given.join(", ")})`,
    lambda: (names, body) => `f.Lambda(${names.length === 1 ? quoted(names[0]) : `f.Arr{${names.map(quoted).join(", ")}}`}, ${body})`,
    name: (name) => `f.Var(${quoted(name)})`,
  },
  Java: {
    value: (value) => (value === null || value === undefined ? "Null()" : `Value(${quoted(value)})`),
    array: (elements) => `Arr(${elements.join(", ")})`,
    object: (entries) => `Obj(${entries.map(([key, value]) => `${quoted(key)}, ${value}`).join(", ")})`,
    call: (name, given) => `${name}(${given.join(", ")})`,
    lambda: (names, body) => `Lambda(${names.length === 1 ? `Value(${quoted(names[0])})` : `Arr(${names.map((name) => `Value(${quoted(name)})`).join(", ")})`}, ${body})`,
    name: (name) => `Var(${quoted(name)})`,
  },
};

function written(node, notation) {
  const inner = (each) => written(each, notation);
  switch (node.kind) {
    case "value":
      return notation.value(node.value);
    case "array":
      return notation.array(node.elements.map(inner));
    case "object":
      return notation.object(node.entries.map(([key, value]) => [key, inner(value)]));
    case "function":
      return notation.lambda(node.names, inner(node.body));
    case "name":
      return notation.name(node.name);
    default:
      if (node.name === "Object" && node.given.length === 1) return inner(node.given[0]);
      return notation.call(node.name, node.given.map(inner));
  }
}

function ofFql({ session, text: given, role }) {
  let trees;
  try {
    toWire(given);
    trees = parse(given);
  } catch (error) {
    return { JavaScript: `// ${error.message}` };
  }
  const address = new URL(session.endpoints.fauna ?? "http://127.0.0.1:8443");
  const secret = (session.development ? "secret" : "SECRET") + (role ? ":" + role : "");
  const scheme = address.protocol.slice(0, -1);
  const all = (language) => trees.map((tree) => written(tree, NOTATIONS[language]));
  return {
    JavaScript: ['import faunadb from "faunadb";', "", "const q = faunadb.query;", `const client = new faunadb.Client({ secret: "${secret}", domain: "${address.hostname}", port: ${address.port}, scheme: "${scheme}" });`, ...all("JavaScript").map((query) => `console.log(await client.query(${query}));`)].join("\n"),
    Python: ["from faunadb import query as q", "from faunadb.client import FaunaClient", "", `client = FaunaClient(secret="${secret}", domain="${address.hostname}", port=${address.port}, scheme="${scheme}")`, ...all("Python").map((query) => `print(client.query(${query}))`)].join("\n"),
    Go: ["package main", "", "import (", '\t"fmt"', "", '\tf "github.com/fauna/faunadb-go/v5/faunadb"', ")", "", "func main() {", `\tclient := f.NewFaunaClient("${secret}", f.Endpoint("${address.origin}"))`, ...all("Go").map((query) => `\tfmt.Println(client.Query(${query}))`), "}"].join("\n"),
    Java: ["import static com.faunadb.client.query.Language.*;", "import com.faunadb.client.FaunaClient;", "", "class Main {", "  public static void main(String[] arguments) throws Exception {", `    var client = FaunaClient.builder().withEndpoint("${address.origin}").withSecret("${secret}").build();`, ...all("Java").map((query) => `    System.out.println(client.query(${query}).get());`), "  }", "}"].join("\n"),
  };
}

// ---- DynamoDB

const pythonData = (value, indent) => JSON.stringify(value, null, 4).replace(/\n/g, "\n" + indent).replace(/(?<=[\s[:,])(true|false|null)(?=[\s,\]}]|$)/g, (word) => ({ true: "True", false: "False", null: "None" })[word]);

function phpData(value, indent = "") {
  const inner = indent + "    ";
  if (Array.isArray(value)) return value.length ? `[\n${value.map((each) => inner + phpData(each, inner)).join(",\n")}\n${indent}]` : "[]";
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value);
    return entries.length ? `[\n${entries.map(([key, each]) => `${inner}${phpText(key)} => ${phpData(each, inner)}`).join(",\n")}\n${indent}]` : "[]";
  }
  return typeof value === "string" ? phpText(value) : String(value);
}

const phpText = (given) => `'${given.replace(/[\\']/g, "\\$&")}'`;

function ofOperations(session, list) {
  const endpoint = session.endpoints.dynamodb ?? "http://127.0.0.1:8000";
  const lower = (name) => name[0].toLowerCase() + name.slice(1);
  const kebab = (name) => name.replace(/(?<=[a-z])([A-Z])/g, "-$1").toLowerCase();
  const shell = (value) => `'${JSON.stringify(value).replace(/'/g, "'\\''")}'`;
  return {
    Python: ["import boto3", "", `client = boto3.client("dynamodb", endpoint_url="${endpoint}", region_name="us-east-1", aws_access_key_id="KEY", aws_secret_access_key="SECRET")`, ...list.map(({ name, input }) => `print(client.${snake(name)}(**${pythonData(input, "")}))`)].join("\n"),
    JavaScript: [`import { DynamoDBClient, ${[...new Set(list.map(({ name }) => name + "Command"))].join(", ")} } from "@aws-sdk/client-dynamodb";`, "", `const client = new DynamoDBClient({ endpoint: "${endpoint}", region: "us-east-1", credentials: { accessKeyId: "KEY", secretAccessKey: "SECRET" } });`, ...list.map(({ name, input }) => `console.log(await client.send(new ${name}Command(${JSON.stringify(input, null, 2)})));`)].join("\n"),
    PHP: ["<?php", "require 'vendor/autoload.php';", "", `$client = new Aws\\DynamoDb\\DynamoDbClient(['version' => 'latest', 'endpoint' => '${endpoint}', 'region' => 'us-east-1', 'credentials' => ['key' => 'KEY', 'secret' => 'SECRET']]);`, ...list.map(({ name, input }) => `print_r($client->${lower(name)}(${phpData(input)})->toArray());`)].join("\n"),
    Shell: ["export AWS_ACCESS_KEY_ID=KEY AWS_SECRET_ACCESS_KEY=SECRET AWS_REGION=us-east-1", ...list.map(({ name, input }) => `aws dynamodb ${kebab(name)} --endpoint-url ${endpoint} --cli-input-json ${shell(input)}`)].join("\n"),
  };
}

function ofDynamoDb({ session, text: given }) {
  try {
    return ofOperations(session, [operation(given)]);
  } catch (error) {
    return { Python: `# ${error.message}` };
  }
}

const ofPartiql = ({ session, text: given }) => ofOperations(session, statements(given).map((Statement) => ({ name: "ExecuteStatement", input: { Statement } })));

// ---- the key-value layer: FoundationDB's bindings

const hexOf = (byte) => "\\x" + byte.toString(16).padStart(2, "0");
const isPlain = (byte) => byte >= 32 && byte < 127 && byte !== 34 && byte !== 92;
/** Bytes between quotation marks: as they are where that is possible. */
const literal = (bytes) => `"${Array.from(bytes, (byte) => (isPlain(byte) ? String.fromCharCode(byte) : hexOf(byte))).join("")}"`;

const KEY_VALUE = {
  Python: {
    bytes: (bytes) => "b" + literal(bytes),
    begin: ["import fdb", "", "fdb.api_version(710)", 'db = fdb.open("fdb.cluster")', ""],
    read: (b, { name, key, end, limit }) => (name === "get" ? [`print(db[${b(key)}])`] : [`for key, value in db.get_range(${b(key)}, ${b(end)}, limit=${limit}):`, `    print(key${name === "getrange" ? ", value" : ""})`]),
    write: (lines) => ["@fdb.transactional", "def write(tr):", ...lines.map((line) => "    " + line), "", "write(db)"],
    set: (b, { key, value }) => `tr[${b(key)}] = ${b(value)}`,
    clear: (b, { key }) => `del tr[${b(key)}]`,
    clearrange: (b, { key, end }) => `tr.clear_range(${b(key)}, ${b(end)})`,
    end: [],
  },
  JavaScript: {
    bytes: (bytes) => `Buffer.from(${literal(bytes)}, "latin1")`,
    begin: ['import fdb from "foundationdb";', "", "fdb.setAPIVersion(710);", 'const db = fdb.open("fdb.cluster");'],
    read: (b, { name, key, end, limit }) => (name === "get" ? [`console.log(await db.get(${b(key)}));`] : [`for (const [key${name === "getrange" ? ", value" : ""}] of await db.getRangeAll(${b(key)}, ${b(end)}, { limit: ${limit} })) console.log(key${name === "getrange" ? ", value" : ""});`]),
    write: (lines) => ["await db.doTn(async (tn) => {", ...lines.map((line) => `  ${line};`), "});"],
    set: (b, { key, value }) => `tn.set(${b(key)}, ${b(value)})`,
    clear: (b, { key }) => `tn.clear(${b(key)})`,
    clearrange: (b, { key, end }) => `tn.clearRange(${b(key)}, ${b(end)})`,
    end: ["db.close();"],
  },
  Go: {
    bytes: (bytes) => `fdb.Key(${literal(bytes)})`,
    begin: ["package main", "", "import (", '\t"fmt"', "", '\t"github.com/apple/foundationdb/bindings/go/src/fdb"', ")", "", "func main() {", "\tfdb.MustAPIVersion(710)", '\tdb := fdb.MustOpenDatabase("fdb.cluster")'],
    read: (b, { name, key, end, limit }) => ["\tfmt.Println(db.ReadTransact(func(tr fdb.ReadTransaction) (interface{}, error) {", name === "get" ? `\t\treturn tr.Get(${b(key)}).Get()` : `\t\treturn tr.GetRange(fdb.KeyRange{Begin: ${b(key)}, End: ${b(end)}}, fdb.RangeOptions{Limit: ${limit}}).GetSliceWithError()`, "\t}))"],
    write: (lines) => ["\tfmt.Println(db.Transact(func(tr fdb.Transaction) (interface{}, error) {", ...lines.map((line) => "\t\t" + line), "\t\treturn nil, nil", "\t}))"],
    set: (b, { key, value }) => `tr.Set(${b(key)}, []byte(${literal(value)}))`,
    clear: (b, { key }) => `tr.Clear(${b(key)})`,
    clearrange: (b, { key, end }) => `tr.ClearRange(fdb.KeyRange{Begin: ${b(key)}, End: ${b(end)}})`,
    end: ["}"],
  },
  Java: {
    bytes: (bytes) => `new byte[] {${Array.from(bytes, (byte) => (byte > 127 ? byte - 256 : byte)).join(", ")}}`,
    begin: ["import com.apple.foundationdb.*;", "", "class Main {", "  public static void main(String[] arguments) {", '    try (var db = FDB.selectAPIVersion(710).open("fdb.cluster")) {'],
    read: (b, { name, key, end, limit }) => ["      System.out.println(db.read(tr -> " + (name === "get" ? `tr.get(${b(key)}).join()` : `tr.getRange(${b(key)}, ${b(end)}, ${limit}).asList().join()`) + "));"],
    write: (lines) => ["      db.run(tr -> {", ...lines.map((line) => `        ${line};`), "        return null;", "      });"],
    set: (b, { key, value }) => `tr.set(${b(key)}, ${b(value)})`,
    clear: (b, { key }) => `tr.clear(${b(key)})`,
    clearrange: (b, { key, end }) => `tr.clear(${b(key)}, ${b(end)})`,
    end: ["    }", "  }", "}"],
  },
};

function ofKeyValue({ text: given }) {
  let list;
  try {
    list = requests(given);
  } catch (error) {
    return { Python: `# ${error.message}` };
  }
  const program = (language) => {
    const { bytes, begin, end, read, write } = language;
    const lines = list.flatMap((request) => (request.name === "write" ? write(request.writes.map((one) => language[one.name](bytes, one))) : read(bytes, request)));
    return [...begin, ...lines, ...end].join("\n");
  };
  return Object.fromEntries(Object.entries(KEY_VALUE).map(([name, language]) => [name, program(language)]));
}

const MAKERS = { Redis: ofRedis, FQL: ofFql, DynamoDB: ofDynamoDb, PartiQL: ofPartiql, "Key-value": ofKeyValue };

/** Programs by the names of their languages. */
export const code = (language, given) => MAKERS[language](given);
