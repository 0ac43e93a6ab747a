// redis.search of @upstash/redis over REST: what the package sends is understood, and what it reads means what it says.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Redis, s } from "@upstash/redis";
import { httpPort } from "./target.js";

describe("redis.search of @upstash/redis", { skip: !httpPort }, () => {
  const redis = httpPort ? new Redis({ url: `http://127.0.0.1:${httpPort}`, token: "dev", enableTelemetry: false, retry: false }) : undefined;
  const schema = s.object({
    name: s.string(),
    category: s.string().noTokenize(),
    price: s.number(),
    stock: s.number("U64"),
    active: s.boolean().fast(),
    added: s.date().fast(),
    tag: s.keyword(),
    path: s.facet(),
    maker: s.object({ city: s.string().noStem() }),
    exact: s.string().noStem().from("name"),
  });
  const products = [
    { name: "Laptop Pro", category: "electronics", price: 1299.99, stock: 50, active: true, added: "2026-01-10T10:00:00Z", tag: "a", path: "/shop/new/laptops", maker: { city: "Bonn" } },
    { name: "Laptop Basic", category: "electronics", price: 599.99, stock: 100, active: true, added: "2026-01-20T10:00:00Z", tag: "b", path: "/shop/used/laptops", maker: { city: "Köln" } },
    { name: "Wireless Mouse", category: "small parts", price: 29.99, stock: 200, active: false, added: "2026-02-05T10:00:00Z", tag: "b", path: "/shop/new/mice", maker: { city: "Bonn" } },
  ];
  let index;

  before(async () => {
    await redis.flushall();
    index = await redis.search.createIndex({ name: "products", dataType: "json", prefix: "product:", schema });
    for (const [number, product] of products.entries()) await redis.json.set(`product:${number}`, "$", product);
  });

  const names = async (filter, options = {}) => (await index.query({ filter, ...options })).map((hit) => hit.data.name);

  test("an index is a key that is described", async () => {
    assert.equal(await redis.type("products"), "search");
    assert.deepEqual(await redis.scan(0, { type: "search" }), ["0", ["products"]]);
    const described = await index.describe();
    assert.deepEqual([described.name, described.dataType, described.prefixes, described.language], ["products", "json", ["product:"], "english"]);
    assert.deepEqual(described.schema.category, { type: "TEXT", noTokenize: true });
    assert.deepEqual(described.schema.exact, { type: "TEXT", noStem: true, from: "name" });
    assert.deepEqual(described.schema["maker.city"], { type: "TEXT", noStem: true });
    assert.equal(await index.waitIndexing(), 1);
    await assert.rejects(redis.search.createIndex({ name: "products", dataType: "json", prefix: "product:", schema }), /Index products already exists/);
    await redis.search.createIndex({ name: "products", dataType: "json", prefix: "product:", schema, existsOk: true });
  });

  test("filters find documents, which need no waiting", async () => {
    assert.deepEqual(await names({ name: { $eq: "laptop" } }), ["Laptop Pro", "Laptop Basic"]);
    assert.deepEqual(await names({ name: "wirelss mouze" }), ["Wireless Mouse"]);
    assert.deepEqual(await names({ name: { $fuzzy: { value: "mosue", distance: 1 } } }), ["Wireless Mouse"]);
    assert.deepEqual(await names({ name: { $phrase: { value: "laptop ba", prefix: true } } }), ["Laptop Basic"]);
    assert.deepEqual(await names({ name: { $regex: "Lap.*" }, price: { $lt: 1000 } }), ["Laptop Basic"]);
    assert.deepEqual(await names({ category: { $eq: "small parts" } }), ["Wireless Mouse"]);
    assert.deepEqual(await names({ added: { $gte: new Date("2026-01-15T00:00:00Z"), $lt: new Date("2026-02-01T00:00:00Z") } }), ["Laptop Basic"]);
    assert.deepEqual(await names({ "maker.city": { $eq: "bonn" }, active: false }), ["Wireless Mouse"]);
    assert.deepEqual(await names({ path: { $eq: "/shop/new" }, $mustNot: { stock: { $lt: 100 } } }), ["Wireless Mouse"]);
    assert.deepEqual(await names({ $or: [{ tag: { $in: ["a"] } }, { price: 29.99 }] }, { orderBy: { price: "ASC" } }), ["Wireless Mouse", "Laptop Pro"]);
    assert.deepEqual(await index.count({ filter: { tag: { $gt: "a" } } }), { count: 2 });
    await redis.json.set("product:9", "$", { name: "Late laptop" });
    assert.deepEqual(await index.count({ filter: { name: { $eq: "late" } } }), { count: 1 });
    await redis.del("product:9");
    assert.deepEqual(await index.count({ filter: { name: { $eq: "late" } } }), { count: 0 });
  });

  test("answers are whole documents, parts of them, marked, or keys alone", async () => {
    const [whole] = await index.query({ filter: { tag: "a" } });
    assert.deepEqual([whole.key, whole.data], ["product:0", products[0]]);
    assert.ok(whole.score > 0);
    const [part] = await index.query({ filter: { tag: "a" }, select: { price: true, "maker.city": true } });
    assert.deepEqual(part.data, { price: 1299.99, maker: { city: "Bonn" } });
    const [marked] = await index.query({ filter: { name: { $eq: "laptops" }, tag: "a" }, select: { name: true }, highlight: { fields: ["name"] } });
    assert.deepEqual(marked.data, { name: "<em>Laptop</em> Pro" });
    const keys = await index.query({ filter: { tag: "b" }, select: {}, scoreFunc: { field: "stock", scoreMode: "replace" }, limit: 1 });
    assert.deepEqual(keys, [{ key: "product:2", score: 200 }]);
  });

  test("aggregations have figures and groups", async () => {
    const found = await index.aggregate({
      aggregations: {
        prices: { $stats: { field: "price" } },
        ranges: { $range: { field: "stock", ranges: [{ to: 100 }, { from: 100 }] }, $aggs: { top: { $max: { field: "price" } } } },
        tags: { $terms: { field: "tag" } },
        paths: { $facet: { field: "path", path: "/shop" } },
        middle: { $percentiles: { field: "stock", percents: [50] } },
      },
    });
    assert.equal(found.prices.count, 3);
    assert.equal(found.prices.max, 1299.99);
    assert.deepEqual(found.ranges.buckets, [
      { key: "*-100", docCount: 1, to: 100, top: { value: 1299.99 } },
      { key: "100-*", docCount: 2, from: 100, top: { value: 599.99 } },
    ]);
    assert.deepEqual(found.tags.buckets, [
      { key: "b", docCount: 2 },
      { key: "a", docCount: 1 },
    ]);
    assert.deepEqual(found.paths.children, [
      { path: "/shop/new", docCount: 2, sumOtherDocCount: 0 },
      { path: "/shop/used", docCount: 1, sumOtherDocCount: 0 },
    ]);
    assert.deepEqual(found.middle, { values: { "50.0": 100 } });
  });

  test("aliases, and an index that goes", async () => {
    assert.equal(await index.addAlias({ alias: "latest" }), 1);
    assert.deepEqual(await redis.search.alias.list(), { latest: "products" });
    assert.deepEqual(await redis.search.index({ name: "latest" }).count({ filter: {} }), { count: 3 });
    assert.equal(await redis.search.alias.delete({ alias: "latest" }), 1);
    assert.equal(await index.drop(), 1);
    assert.equal(await index.query({ filter: {} }), null);
    assert.equal(await redis.exists("product:0"), 1);
  });

  test("entries of a stream are found by their fields", async () => {
    const events = s.object({ message: s.string(), service: s.keyword(), severity: s.number("U64") });
    const log = await redis.search.createIndex({ name: "log", dataType: "stream", stream: "events", schema: events });
    const first = await redis.xadd("events", "*", { message: "door opened", service: "doors", severity: 1 });
    const second = await redis.xadd("events", "*", { message: "gate opened", service: "gates", severity: 5 });
    const described = await log.describe();
    assert.deepEqual([described.dataType, described.prefixes], ["stream", ["events"]]);
    const found = await log.query({ filter: { message: { $eq: "opened" } }, orderBy: { severity: "DESC" } });
    assert.deepEqual(found.map((hit) => hit.key), [second, first]);
    assert.equal(found[0].data.service, "gates");
    await redis.xdel("events", second);
    assert.deepEqual(await log.count({ filter: { message: { $eq: "opened" } } }), { count: 1 });
  });
});
