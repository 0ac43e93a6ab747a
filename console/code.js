// What was typed in the pad, as a program.

import { shown } from "./bytes.js";
import { parse, toWire } from "./fql.js";
import { operation, statements } from "./pad_dynamodb.js";
import { commands } from "./pad_redis.js";

const text = (word) => JSON.stringify(shown(word));

function ofRedis({ session, database, text: given }) {
  let list;
  try {
    list = commands(given);
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

const MAKERS = { Redis: ofRedis, FQL: ofFql, DynamoDB: ofDynamoDb, PartiQL: ofPartiql };

/** Programs by the names of their languages. */
export const code = (language, given) => MAKERS[language](given);
