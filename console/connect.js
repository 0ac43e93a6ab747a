// How to connect: snippets that work as they are pasted, for each client and each database; and what a database without keys shows.

import { html, useState } from "./html.js";
import * as api from "./api.js";
import { toBase64 } from "./tuples.js";
import { Copy, Problem, Tabs, link, noteChange, useAct } from "./ui.js";

/** What stands where a secret belongs. */
function secretsOf(session, database) {
  if (session.development && database === "default") return { password: "", rest: "dev", fauna: "secret", key: "any", secret: "any" };
  if (database === "default") return { password: "ROOT_KEY", rest: "ROOT_KEY", fauna: "ROOT_KEY", key: "ACCESS_KEY_ID", secret: "SECRET_ACCESS_KEY" };
  return { password: "TOKEN", rest: "TOKEN", fauna: "FAUNA_KEY", key: "ACCESS_KEY_ID", secret: "SECRET_ACCESS_KEY" };
}

/** Addresses and secrets as the variables that clients read, of one database. */
export function variables(session, name, { token, access_key_id, secret_access_key, fauna_key }) {
  const { redis, dynamodb, fauna, keyvalue } = session.endpoints;
  const lines = [`UPSTASH_REDIS_REST_URL=${location.origin}`, `UPSTASH_REDIS_REST_TOKEN=${token}`];
  if (redis) lines.unshift(`REDIS_URL=redis://${name}:${token}@${redis.replace(/^.*[/@]/, "")}`);
  if (dynamodb) lines.push(`AWS_ENDPOINT_URL_DYNAMODB=${dynamodb}`, "AWS_REGION=us-east-1", `AWS_ACCESS_KEY_ID=${access_key_id}`, `AWS_SECRET_ACCESS_KEY=${secret_access_key}`);
  if (fauna) lines.push(`FAUNA_ENDPOINT=${fauna}`, `FAUNA_SECRET=${fauna_key}`);
  if (keyvalue) lines.push(`# fdb.cluster: ${keyvalue.replace(/:[^@]*@/, `:${token}@`)}`);
  return lines.join("\n");
}

function redisSnippets(endpoint, { password }) {
  const [host, port] = endpoint.replace(/^.*[/@]/, "").split(":");
  const url = `redis://${password && `default:${password}@`}${host}:${port}`;
  return {
    "redis-cli": `redis-cli -u ${url} PING`,
    "redis-py": `# pip install redis\nimport redis\n\nr = redis.Redis.from_url("${url}", decode_responses=True)\nr.set("greeting", "hello")\nprint(r.get("greeting"))`,
    ioredis: `// npm install ioredis\nimport Redis from "ioredis";\n\nconst redis = new Redis("${url}");\nawait redis.set("greeting", "hello");\nconsole.log(await redis.get("greeting"));\nredis.disconnect();`,
    "go-redis": `// go get github.com/redis/go-redis/v9\npackage main\n\nimport (\n\t"context"\n\t"fmt"\n\n\t"github.com/redis/go-redis/v9"\n)\n\nfunc main() {\n\toptions, err := redis.ParseURL("${url}")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tclient := redis.NewClient(options)\n\tctx := context.Background()\n\tclient.Set(ctx, "greeting", "hello", 0)\n\tfmt.Println(client.Get(ctx, "greeting").Result())\n}`,
    Jedis: `// redis.clients:jedis\nimport redis.clients.jedis.JedisPooled;\n\nclass Main {\n  public static void main(String[] arguments) {\n    try (var redis = new JedisPooled("${url}")) {\n      redis.set("greeting", "hello");\n      System.out.println(redis.get("greeting"));\n    }\n  }\n}`,
  };
}

function restSnippets(url, { rest }) {
  return {
    curl: `curl -H "Authorization: Bearer ${rest}" ${url}/set/greeting/hello`,
    "@upstash/redis": `// npm install @upstash/redis\nimport { Redis } from "@upstash/redis";\n\nconst redis = new Redis({ url: "${url}", token: "${rest}" });\nawait redis.set("greeting", "hello");\nconsole.log(await redis.get("greeting"));`,
    environment: `UPSTASH_REDIS_REST_URL=${url}\nUPSTASH_REDIS_REST_TOKEN=${rest}`,
  };
}

function faunaSnippets(endpoint, { fauna }) {
  const { hostname, port, protocol, origin } = new URL(endpoint);
  const scheme = protocol.slice(0, -1);
  return {
    JavaScript: `// npm install faunadb\nimport faunadb from "faunadb";\n\nconst client = new faunadb.Client({ secret: "${fauna}", domain: "${hostname}", port: ${port}, scheme: "${scheme}" });\nconsole.log(await client.query(faunadb.query.Add(1, 2)));\nclient.close();`,
    Python: `# pip install faunadb\nfrom faunadb import query as q\nfrom faunadb.client import FaunaClient\n\nclient = FaunaClient(secret="${fauna}", domain="${hostname}", port=${port}, scheme="${scheme}")\nprint(client.query(q.add(1, 2)))`,
    Go: `// go get github.com/fauna/faunadb-go/v5\npackage main\n\nimport (\n\t"fmt"\n\n\tf "github.com/fauna/faunadb-go/v5/faunadb"\n)\n\nfunc main() {\n\tclient := f.NewFaunaClient("${fauna}", f.Endpoint("${origin}"))\n\tfmt.Println(client.Query(f.Add(1, 2)))\n}`,
    curl: `curl -u ${fauna}: ${origin}/ -d '{"add": [1, 2]}'`,
  };
}

function dynamoSnippets(endpoint, { key, secret }) {
  return {
    "AWS CLI": `AWS_ACCESS_KEY_ID=${key} AWS_SECRET_ACCESS_KEY=${secret} aws dynamodb list-tables --region us-east-1 --endpoint-url ${endpoint}`,
    boto3: `# pip install boto3\nimport boto3\n\nclient = boto3.client("dynamodb", endpoint_url="${endpoint}", region_name="us-east-1", aws_access_key_id="${key}", aws_secret_access_key="${secret}")\nprint(client.list_tables()["TableNames"])`,
    JavaScript: `// npm install @aws-sdk/client-dynamodb\nimport { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";\n\nconst client = new DynamoDBClient({ endpoint: "${endpoint}", region: "us-east-1", credentials: { accessKeyId: "${key}", secretAccessKey: "${secret}" } });\nconsole.log(await client.send(new ListTablesCommand({})));`,
    Java: `// software.amazon.awssdk:dynamodb\nimport java.net.URI;\nimport software.amazon.awssdk.auth.credentials.*;\nimport software.amazon.awssdk.regions.Region;\nimport software.amazon.awssdk.services.dynamodb.DynamoDbClient;\n\nclass Main {\n  public static void main(String[] arguments) {\n    var credentials = AwsBasicCredentials.create("${key}", "${secret}");\n    try (var client = DynamoDbClient.builder().endpointOverride(URI.create("${endpoint}")).region(Region.US_EAST_1)\n        .credentialsProvider(StaticCredentialsProvider.create(credentials)).build()) {\n      System.out.println(client.listTables().tableNames());\n    }\n  }\n}`,
  };
}

function keyvalueSnippets(line, database) {
  const own = database === "default" ? line.replace("<root key>", "ROOT_KEY") : line.replace(/:[^@]*@/, ":TOKEN@");
  return {
    "cluster file": own,
    Python: `# The binding of FoundationDB, with libfdb_c.so of "cargo build --release -p quartet-fdb-c"\nimport fdb\n\nfdb.api_version(710)\nopen("fdb.cluster", "w").write("${own}\\n")\ndb = fdb.open("fdb.cluster")\ndb[b"greeting"] = b"hello"\nprint(db[b"greeting"])`,
  };
}

function Part({ title, snippets }) {
  const names = Object.keys(snippets);
  const [chosen, choose] = useState(names[0]);
  return html`<section class="panel"><h2>${title}</h2>
    <${Tabs} label=${title} names=${names} chosen=${chosen} onChoose=${choose} />
    <pre class="snippet">${snippets[chosen]}</pre><${Copy} text=${snippets[chosen]} /></section>`;
}

export function Connect({ session, database }) {
  const { endpoints } = session;
  const secrets = secretsOf(session, database);
  const isOpen = session.development && database === "default";
  return html`<h2>Connect to ${database}</h2>
    ${!isOpen && html`<p class="dim">Put what you were given in the place of the words in capitals${database === "default" ? "" : "; whoever made the database saw them once"}.</p>`}
    <div class="cards wide">
      ${endpoints.redis && html`<${Part} title="Redis" snippets=${redisSnippets(endpoints.redis, secrets)} />`}
      <${Part} title="Redis over REST" snippets=${restSnippets(location.origin, secrets)} />
      ${endpoints.fauna && html`<${Part} title="FaunaDB" snippets=${faunaSnippets(endpoints.fauna, secrets)} />`}
      ${endpoints.dynamodb && html`<${Part} title="DynamoDB" snippets=${dynamoSnippets(endpoints.dynamodb, secrets)} />`}
      ${endpoints.keyvalue && html`<${Part} title="Key-value" snippets=${keyvalueSnippets(endpoints.keyvalue, database)} />`}
    </div>`;
}

/** A little of everything that a layer keeps, under names that begin with `sample`. Made twice, it is there once. */
const SAMPLES = {
  redis: (database) => {
    const people = [["ann", "Lisbon", 31], ["bob", "Oslo", 27], ["cy", "Quito", 45]];
    const hash = ([name, city, age]) => ["HSET", `sample:person:${name}`, "name", name, "city", city, "age", age];
    return api.redisAll(database, [
      ...people.map(hash),
      ["ZADD", "sample:scores", ...people.flatMap(([name], index) => [10 * (index + 1), name])],
      ["DEL", "sample:events"],
      ["XADD", "sample:events", "*", "person", "ann", "did", "signed up"],
      ["JSON.SET", "sample:order:1", "$", '{"person":"ann","items":[{"name":"lamp","price":20}]}'],
      ["VADD", "sample:words", "VALUES", 3, 0.1, 0.9, 0.2, "apple"],
      ["VADD", "sample:words", "VALUES", 3, 0.9, 0.1, 0.3, "train"],
      ["FT.CREATE", "sample:people", "PREFIX", 1, "sample:person:", "SCHEMA", "name", "TEXT", "city", "TAG", "age", "NUMERIC"],
    ]);
  },
  dynamodb: async (database) => {
    const TableName = "sample-orders";
    const table = { TableName, KeySchema: [{ AttributeName: "id", KeyType: "HASH" }], AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }], BillingMode: "PAY_PER_REQUEST" };
    await api.dynamodb(database, "CreateTable", table).catch(unlessThere("ResourceInUse"));
    await api.dynamodb(database, "PutItem", { TableName, Item: { id: { S: "1" }, person: { S: "ann" }, total: { N: "20" } } });
  },
  fauna: async (database) => {
    await api.fauna(database, { create_collection: { object: { name: "sample_people" } } }).catch(unlessThere("already exists"));
    const ref = { ref: { collection: "sample_people" }, id: "1" };
    const params = { object: { data: { object: { name: "Ann", city: "Lisbon" } } } };
    await api.fauna(database, { if: { exists: ref }, then: null, else: { create: ref, params } });
  },
  keyvalue: (database) => api.keyvalue(database, { write: [{ set: ["sample/greeting", "hello"].map((text) => toBase64(new TextEncoder().encode(text))) }] }),
};

const unlessThere = (word) => (error) => {
  if (!JSON.stringify([error.message, error.body]).includes(word)) throw error;
};

/** What somebody finds who opens a database without keys: where it is, and something to look at. */
export function Welcome({ session, database, onMade }) {
  const [act, { busy, error }] = useAct();
  const here = session.databases.find(({ name }) => name === database);
  const [[name, first]] = Object.entries(redisSnippets(session.endpoints.redis ?? "localhost:6379", secretsOf(session, database)));
  const make = () =>
    act(async () => {
      for (const [layer, fill] of Object.entries(SAMPLES)) if (here[layer]) await fill(database);
      noteChange();
      onMade();
    });
  return html`<div class="panel" id="welcome"><h2>${database} has no keys yet</h2>
    ${session.endpoints.redis && html`<p>With ${name}:</p><pre>${first}</pre><${Copy} text=${first} />`}
    <div class="row">
      <a class="button main" href=${link("connect", database)}>Connect an application</a>
      <button id="sample" disabled=${busy} onClick=${make}>Make sample data</button>
      <a class="button" href=${link("pad", database)}>Type a command</a>
    </div>
    <p class="dim">Sample data are a few keys, an index, a table, a collection and a row, whose names begin with <code>sample</code>. The documentation is in the source,
      from <code>docs/index.md</code> on: two minutes for each protocol, and how to move to it.</p>
    <${Problem} error=${error} /></div>`;
}
