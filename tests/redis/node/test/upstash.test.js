// The client that serverless functions use.
import assert from "node:assert/strict";
import { beforeEach, describe, test } from "node:test";
import { Redis } from "@upstash/redis";
import { httpPort, readOnlyToken } from "./target.js";

const open = (options = {}) =>
  new Redis({ url: `http://127.0.0.1:${httpPort}`, token: "dev", enableTelemetry: false, retry: false, ...options });

describe("@upstash/redis", { skip: !httpPort }, () => {
  const redis = open();
  beforeEach(() => redis.flushall());

  test("values come back as they were given", async () => {
    assert.equal(await redis.set("object", { a: [1, "two", null] }, { ex: 100 }), "OK");
    assert.deepEqual(await redis.get("object"), { a: [1, "two", null] });
    assert.equal(await redis.set("text", "ä😀"), "OK");
    assert.equal(await redis.get("text"), "ä😀");
    assert.equal(await redis.get("none"), null);
    assert.equal(await redis.incrby("n", 41), 41);
    assert.deepEqual(await redis.mget("n", "none"), [41, null]);
    assert.equal(await open({ responseEncoding: false }).get("text"), "ä😀");
  });

  test("collections", async () => {
    await redis.hset("h", { a: 1, b: "two" });
    assert.deepEqual(await redis.hgetall("h"), { a: 1, b: "two" });
    await redis.zadd("z", { score: 1, member: "a" }, { score: 2.5, member: "b" });
    assert.deepEqual(await redis.zrange("z", 0, -1, { withScores: true }), ["a", 1, "b", 2.5]);
    const id = await redis.xadd("x", "*", { field: "value" });
    assert.deepEqual(await redis.xrange("x", "-", "+"), { [id]: { field: "value" } });
    assert.deepEqual(await redis.geoadd("g", { longitude: 13.4, latitude: 52.5, member: "Berlin" }), 1);
  });

  test("entries of a stream are deleted as groups let them go", async () => {
    const ids = [await redis.xadd("x", "*", { a: 1 }), await redis.xadd("x", "*", { a: 2 })];
    await redis.xgroup("x", { type: "CREATE", group: "g", id: "0" });
    await redis.xreadgroup("g", "c", "x", ">");
    assert.deepEqual(await redis.xackdel("x", "g", "DELREF", ids[0], "9-9"), [1, -1]);
    assert.deepEqual(await redis.xdelex("x", "ACKED", ids[1]), [2]);
    assert.deepEqual(await redis.xdelex("x", undefined, ids[1]), [1]);
  });

  test("pipelines, transactions, automatic pipelines", async () => {
    assert.deepEqual(await redis.pipeline().set("a", 1).incr("a").get("a").exec(), ["OK", 2, 2]);
    assert.deepEqual(await redis.multi().set("b", 1).incr("b").exec(), ["OK", 2]);
    await assert.rejects(redis.multi().set("c", "x").incr("c").exec(), /ERR value is not an integer/);
    const automatic = open({ enableAutoPipelining: true });
    assert.deepEqual(await Promise.all([automatic.get("a"), automatic.get("b"), automatic.incr("n")]), [2, 2, 1]);
  });

  test("errors are thrown", async () => {
    await redis.set("text", "x");
    await assert.rejects(redis.incr("text"), /ERR value is not an integer or out of range/);
    await assert.rejects(open({ token: readOnlyToken }).set("a", 1), /NOPERM/);
    assert.equal(await open({ token: readOnlyToken }).get("text"), "x");
  });

  test("scripts", async () => {
    const script = redis.createScript("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    assert.equal(await script.exec(["n"], ["5"]), 5);
    assert.equal(await script.evalsha(["n"], ["5"]), 10);
  });

  test("JSON", async () => {
    assert.equal(await redis.json.set("d", "$", { name: "x", list: [1, 2], nested: { list: [3] } }), "OK");
    assert.deepEqual(await redis.json.get("d", "$..list"), [[1, 2], [3]]);
    assert.deepEqual(await redis.json.arrappend("d", "$.list", 4), [3]);
    assert.deepEqual(await redis.json.numincrby("d", "$.list[0]", 10), [11]);
    assert.equal(await redis.json.merge("d", "$", { name: null, added: true }), "OK");
    assert.deepEqual(await redis.json.get("d"), { list: [11, 2, 4], nested: { list: [3] }, added: true });
    assert.equal(await redis.json.del("d", "$..list"), 2);
  });

  test("subscriptions", async () => {
    const subscription = redis.subscribe(["news"]);
    const received = new Promise((resolve, reject) => {
      subscription.on("message", ({ channel, message }) => resolve({ channel, message }));
      subscription.on("error", reject);
    });
    await new Promise((resolve) => subscription.on("subscribe", resolve));
    assert.equal(await redis.publish("news", { hello: "world" }), 1);
    assert.deepEqual(await received, { channel: "news", message: { hello: "world" } });
    await subscription.unsubscribe();
  });

  test("each request sees what the one before wrote", async () => {
    for (let index = 0; index < 50; index++) {
      await redis.set("session", index);
      assert.equal(await redis.get("session"), index);
    }
  });
});
