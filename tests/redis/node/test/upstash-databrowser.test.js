// What Upstash's data browser (@upstash/react-redis-browser) asks for when its pages are opened, by the client that it uses, made as it makes it: automatic
// deserialization off. Its hooks (`src/components/databrowser/hooks`, as of July 2026) say which calls; the component itself is not to be had from the registry.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Redis } from "@upstash/redis";
import { httpPort } from "./target.js";

const PAGE = 50;
const options = { url: `http://127.0.0.1:${httpPort}`, token: "dev", automaticDeserialization: false, keepAlive: false, enableTelemetry: false, retry: false };

describe("Upstash's data browser", { skip: !httpPort }, () => {
  const redis = new Redis({ ...options, enableAutoPipelining: true });
  const plain = new Redis({ ...options, enableAutoPipelining: false });

  before(() => redis.flushall());

  test("keys of each type are added, and listed with their types", async () => {
    const adds = {
      "a:string": () => redis.set("a:string", "value"),
      "a:hash": () => redis.hset("a:hash", { field: "value" }),
      "a:list": () => redis.lpush("a:list", "value"),
      "a:set": () => redis.sadd("a:set", "value"),
      "a:zset": () => redis.zadd("a:zset", { member: "value", score: 0 }),
      "a:stream": () => redis.xadd("a:stream", "*", { foo: "bar" }),
      "a:json": () => redis.json.set("a:json", "$", { foo: "bar" }),
    };
    for (const [key, add] of Object.entries(adds)) {
      assert.equal(await redis.exists(key), 0);
      await add();
    }
    const [cursor, values] = await plain.exec(["SCAN", "0", "COUNT", "100", "WITHTYPE"]);
    assert.equal(cursor, "0");
    const listed = Object.fromEntries(Array.from({ length: values.length / 2 }, (_, index) => values.slice(2 * index, 2 * index + 2)));
    assert.deepEqual(listed, Object.fromEntries(Object.keys(adds).map((key) => [key, key.slice(2)])));
    for (const key of Object.keys(adds)) {
      const found = await plain.exec(["SCAN", "0", "MATCH", "a:*", "TYPE", key.slice(2), "COUNT", "500"]);
      assert.deepEqual(found, ["0", [key]]);
    }
  });

  test("a key is shown: its lifetime, size, length and content", async () => {
    const [ttl, bytes, cards] = await Promise.all([redis.ttl("a:hash"), redis.exec(["MEMORY", "USAGE", "a:hash"]), Promise.all([redis.scard("a:set"), redis.zcard("a:zset"), redis.llen("a:list"), redis.hlen("a:hash"), redis.xlen("a:stream")])]);
    assert.equal(ttl, -1);
    assert.ok(bytes > 0);
    assert.deepEqual(cards, [1, 1, 1, 1, 1]);
    assert.equal(await plain.get("a:string"), "value");
    assert.deepEqual(JSON.parse(await plain.json.get("a:json")), { foo: "bar" });
    assert.deepEqual(await plain.sscan("a:set", "0", { count: PAGE }), ["0", ["value"]]);
    assert.deepEqual(await plain.hscan("a:hash", "0", { count: PAGE }), ["0", ["field", "value"]]);
    assert.deepEqual((await plain.zrange("a:zset", 0, PAGE - 1, { withScores: true, rev: true })).map(String), ["value", "0"]);
    assert.deepEqual(await plain.lrange("a:list", 0, PAGE - 1), ["value"]);
    const [[first, fields]] = await plain.xrange("a:stream", "-", "+", PAGE + 1);
    assert.deepEqual(fields, ["foo", "bar"]);
    assert.deepEqual(await plain.xrange("a:stream", `(${first}`, "+", PAGE + 1), []);
    assert.deepEqual(await redis.httl("a:hash", ["field"]), [-1]);
  });

  test("elements, lifetimes and keys are changed and deleted", async () => {
    const pipeline = redis.pipeline();
    pipeline.srem("a:set", "value").sadd("a:set", "other").zrem("a:zset", "value").zadd("a:zset", { member: "other", score: 1.5 });
    pipeline.hdel("a:hash", "none").hset("a:hash", { other: "2" }).lset("a:list", 0, "__DELETED_1").lrem("a:list", 0, "__DELETED_1").lpush("a:list", "new");
    assert.deepEqual(await pipeline.exec(), [1, 1, 1, 1, 0, 1, "OK", 1, 1]);
    assert.deepEqual(await redis.hexpire("a:hash", "other", 100), [1]);
    assert.deepEqual(await redis.hpersist("a:hash", "other"), [1]);
    assert.equal(await redis.expire("a:string", 100), 1);
    assert.equal(await redis.persist("a:string"), 1);
    await redis.set("a:string", "text");
    await redis.json.set("a:json", "$", { b: [1] });
    assert.deepEqual(JSON.parse(await plain.json.get("a:json")), { b: [1] });
    await Promise.all(["a:string", "a:json", "a:list"].map((key) => redis.del(key)));
    const [, left] = await plain.exec(["SCAN", "0", "COUNT", "1000", "WITHTYPE"]);
    assert.deepEqual(left.filter((_, index) => index % 2 === 0).sort(), ["a:hash", "a:set", "a:stream", "a:zset"]);
  });
});
