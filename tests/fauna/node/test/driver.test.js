// The JavaScript driver, which speaks HTTP/2 in clear text; the address comes from the environment (`python -m harness`).
import assert from "node:assert/strict";
import { after, test } from "node:test";
import faunadb from "faunadb";

const q = faunadb.query;
const port = Number(process.env.QUARTET_FAUNA_PORT);
const connect = (secret) => new faunadb.Client({ secret, domain: "127.0.0.1", port, scheme: "http", http2SessionIdleTime: 0 });
const root = connect("secret");
const clients = [root];

async function database(name) {
  await root.query(q.CreateDatabase({ name }));
  const key = await root.query(q.CreateKey({ database: q.Database(name), role: "admin" }));
  const client = connect(key.secret);
  clients.push(client);
  return client;
}

after(() => clients.forEach((client) => client.close({ force: true })));

test("values come back as they went", async () => {
  const value = { n: 1, s: "☃", list: [true, null], when: new faunadb.values.FaunaTime("2020-01-01T00:00:00.123456789Z") };
  assert.deepEqual(await root.query(value), value);
});

test("joins, unions and cursors", async () => {
  const client = await database("sets");
  await client.query(q.CreateCollection({ name: "posts" }));
  for (const field of ["tag", "author"]) {
    const index = { name: `by_${field}`, source: q.Collection("posts"), terms: [{ field: ["data", field] }] };
    await client.query(q.CreateIndex(index));
  }
  const posts = [["a", "amy"], ["b", "amy"], ["a", "bob"], ["c", "bob"]];
  await client.query(q.Foreach(posts, q.Lambda(["tag", "author"], q.Create(q.Collection("posts"), { data: { tag: q.Var("tag"), author: q.Var("author") } }))));
  const union = q.Union(q.Match(q.Index("by_tag"), "a"), q.Match(q.Index("by_author"), "bob"));
  assert.equal(await client.query(q.Count(union)), 3);
  const both = q.Intersection(q.Match(q.Index("by_tag"), "a"), q.Match(q.Index("by_author"), "bob"));
  assert.equal(await client.query(q.Count(both)), 1);
  const seen = [];
  await client.paginate(union, { size: 1 }).each((page) => seen.push(...page));
  assert.equal(seen.length, 3);
});

test("a query that is wrong says where", async () => {
  const error = await root.query(q.Add(1, "two")).catch((error) => error);
  assert.equal(error.name, "BadRequest");
  assert.deepEqual(error.requestResult.responseContent.errors[0].position, ["add", 1]);
});

test("a hundred queries at once share one connection", async () => {
  const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => root.query(q.Multiply(n, 2))));
  assert.deepEqual(answers, Array.from({ length: 100 }, (_, n) => n * 2));
});

test("a set is followed", { timeout: 120_000 }, async () => {
  const client = await database("streams");
  await client.query(q.CreateCollection({ name: "things" }));
  const told = await new Promise((resolve, reject) => {
    const actions = [];
    const stream = client
      .stream(q.Documents(q.Collection("things")))
      .on("start", () => client.query(q.Delete(q.Select("ref", q.Create(q.Collection("things"))))).then(() => client.query(q.Create(q.Collection("things")))))
      .on("set", (event) => {
        actions.push(event.action);
        stream.close();
        resolve(actions);
      })
      .on("error", reject);
    stream.start();
  });
  // What came and went in one transaction was never there for anybody else.
  assert.deepEqual(told, ["add"]);
});
