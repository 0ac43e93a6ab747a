// Node's clients of each layer. The addresses are in the variables that these clients have usually; `node --test` runs all of them.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { test } from "node:test";

// An application has them installed beside it, and imports them.
const require = createRequire(import.meta.url);
const { CreateTableCommand, DynamoDBClient, GetItemCommand, PutItemCommand } = require("@aws-sdk/client-dynamodb");
const { Redis: Upstash } = require("@upstash/redis");
const faunadb = require("faunadb");
const Redis = require("ioredis");

const q = faunadb.query;

test("redis", async () => {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set("node:greeting", "hello");
  assert.equal(await redis.get("node:greeting"), "hello");
  await redis.quit();
});

test("rest", async () => {
  const redis = Upstash.fromEnv();
  await redis.set("node:json", { text: "hello" });
  assert.deepEqual(await redis.get("node:json"), { text: "hello" });
});

test("dynamodb", async () => {
  const client = new DynamoDBClient();
  const TableName = "node-notes";
  await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: "PAY_PER_REQUEST",
      KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
      AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    }),
  );
  await client.send(new PutItemCommand({ TableName, Item: { id: { S: "1" }, text: { S: "hello" } } }));
  const { Item } = await client.send(new GetItemCommand({ TableName, Key: { id: { S: "1" } } }));
  assert.equal(Item.text.S, "hello");
});

test("fauna", async () => {
  const { hostname: domain, port, protocol } = new URL(process.env.FAUNA_ENDPOINT);
  const client = new faunadb.Client({ secret: process.env.FAUNA_SECRET, domain, port: Number(port), scheme: protocol.slice(0, -1) });
  await client.query(q.CreateCollection({ name: "node_people" }));
  const person = q.Ref(q.Collection("node_people"), "1");
  await client.query(q.Create(person, { data: { name: "Ann" } }));
  assert.equal(await client.query(q.Select(["data", "name"], q.Get(person))), "Ann");
  await client.close();
});
