import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { Redis } from "ioredis";
import { databases, host, port } from "./target.js";

const open = (options = {}) => new Redis({ host, port, db: databases.ioredis, maxRetriesPerRequest: 0, retryStrategy: () => null, ...options });

describe("ioredis", () => {
  let redis;
  before(() => { redis = open(); });
  after(() => redis.quit());
  beforeEach(() => redis.flushdb());

  test("becomes ready after its INFO check", async () => {
    const fresh = open({ lazyConnect: true });
    await fresh.connect();
    assert.equal(fresh.status, "ready");
    assert.equal(await fresh.ping(), "PONG");
    assert.equal(await fresh.quit(), "OK");
  });

  test("names its connection", async () => {
    const named = open({ connectionName: "worker" });
    assert.equal(await named.client("GETNAME"), "worker");
    await named.quit();
  });

  test("strings", async () => {
    assert.equal(await redis.set("k", "v", "EX", 100), "OK");
    assert.equal(await redis.get("k"), "v");
    // No time passes within a transaction.
    assert.deepEqual(await redis.multi().expire("k", 100).ttl("k").exec(), [[null, 1], [null, 100]]);
    assert.equal(await redis.set("k", "w", "NX"), null);
    assert.deepEqual(await redis.mget("k", "none"), ["v", null]);
    assert.equal(await redis.incrby("n", 41), 41);
    assert.equal(await redis.incrbyfloat("f", 1.5), "1.5");
  });

  test("hgetall is an object", async () => {
    assert.equal(await redis.hset("h", { a: 1, b: "two" }), 2);
    assert.deepEqual({ ...(await redis.hgetall("h")) }, { a: "1", b: "two" });
    assert.deepEqual({ ...(await redis.hgetall("none")) }, {});
  });

  test("lists, sets and sorted sets", async () => {
    await redis.rpush("l", 1, 2, 3);
    assert.deepEqual(await redis.lrange("l", 0, -1), ["1", "2", "3"]);
    await redis.sadd("s", "a", "b");
    assert.deepEqual([...(await redis.smembers("s"))].sort(), ["a", "b"]);
    await redis.zadd("z", 1, "a", 2.5, "b");
    assert.deepEqual(await redis.zrange("z", 0, -1), ["a", "b"]);
    assert.equal(Number(await redis.zscore("z", "b")), 2.5);
  });

  test("streams, and a reader that waits", async () => {
    await redis.xgroup("CREATE", "s", "g", "$", "MKSTREAM");
    const waiting = open();
    await waiting.ping();
    const read = waiting.xreadgroup("GROUP", "g", "c", "COUNT", 1, "BLOCK", 5000, "STREAMS", "s", ">");
    const id = await redis.xadd("s", "*", "a", "1");
    assert.deepEqual(await read, [["s", [[id, ["a", "1"]]]]]);
    assert.deepEqual(await redis.xpending("s", "g"), [1, id, id, [["c", "1"]]]);
    assert.equal(await redis.xack("s", "g", id), 1);
    assert.deepEqual(await redis.xrange("s", "-", "+"), [[id, ["a", "1"]]]);
    await waiting.quit();
  });

  test("places", async () => {
    await redis.geoadd("g", 13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania");
    assert.equal(await redis.geodist("g", "Palermo", "Catania"), "166274.1516");
    assert.deepEqual(await redis.geosearch("g", "FROMLONLAT", 15, 37, "BYRADIUS", 200, "km", "ASC"), ["Catania", "Palermo"]);
  });

  test("binary values", async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
    await redis.set("b", bytes);
    assert.deepEqual(await redis.getBuffer("b"), bytes);
  });

  test("a pipeline answers in order and carries errors", async () => {
    const replies = await redis.pipeline().set("s", "v").lpush("s", 1).get("s").exec();
    assert.deepEqual(replies[0], [null, "OK"]);
    assert.match(replies[1][0].message, /^WRONGTYPE/);
    assert.deepEqual(replies[2], [null, "v"]);
  });

  test("ten thousand commands in one pipeline", async () => {
    const pipeline = redis.pipeline();
    for (let index = 0; index < 10000; index++) pipeline.incr("n");
    const replies = await pipeline.exec();
    assert.deepEqual(replies.map(([, value]) => value), Array.from({ length: 10000 }, (_, index) => index + 1));
  });

  test("automatic pipelining", async () => {
    const automatic = open({ enableAutoPipelining: true });
    const replies = await Promise.all(Array.from({ length: 500 }, (_, index) => automatic.echo(String(index))));
    assert.deepEqual(replies, Array.from({ length: 500 }, (_, index) => String(index)));
    await automatic.quit();
  });

  test("multi and exec", async () => {
    assert.deepEqual(await redis.multi().set("k", 1).incr("k").get("k").exec(), [[null, "OK"], [null, 2], [null, "2"]]);
  });

  test("a command which cannot be queued aborts", async () => {
    await assert.rejects(redis.multi().set("k", 1).call("SET", "k").exec(), /EXECABORT/);
    assert.equal(await redis.exists("k"), 0);
  });

  test("watch answers null when touched", async () => {
    const other = open();
    await redis.watch("k");
    await other.set("k", "theirs");
    assert.equal(await redis.multi().set("k", "mine").exec(), null);
    assert.equal(await redis.get("k"), "theirs");
    await other.quit();
  });

  test("blpop waits and is served", async () => {
    const waiting = open();
    await waiting.ping();
    const reply = waiting.blpop("q", 5);
    await redis.rpush("q", "job");
    assert.deepEqual(await reply, ["q", "job"]);
    assert.equal(await waiting.blpop("q", 0.05), null);
    await waiting.quit();
  });

  test("scan stream", async () => {
    await redis.mset(Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`k${index}`, "v"])));
    const found = new Set();
    for await (const keys of redis.scanStream({ match: "k*", count: 50 })) keys.forEach((key) => found.add(key));
    assert.equal(found.size, 500);
  });

  test("hscan stream", async () => {
    await redis.hset("h", Object.fromEntries(Array.from({ length: 300 }, (_, index) => [`f${index}`, index])));
    const found = new Map();
    for await (const page of redis.hscanStream("h")) for (let at = 0; at < page.length; at += 2) found.set(page[at], page[at + 1]);
    assert.equal(found.size, 300);
    assert.equal(found.get("f7"), "7");
  });

  test("errors carry the server's words", async () => {
    await assert.rejects(redis.call("NOSUCH", "x"), /^ReplyError: ERR unknown command 'NOSUCH', with args beginning with: 'x' $/);
    await assert.rejects(redis.call("GET"), /wrong number of arguments for 'get' command/);
    await redis.set("k", "abc");
    await assert.rejects(redis.incr("k"), /value is not an integer or out of range/);
  });

  test("databases are apart", async () => {
    const other = open({ db: 9 });
    await other.set("k", "nine");
    assert.equal(await redis.get("k"), null);
    await other.flushdb();
    await other.quit();
  });

  test("messages reach a subscriber", async () => {
    const listener = open();
    const heard = [];
    const all = new Promise((resolve) => {
      const hear = (...message) => { heard.push(message); if (heard.length === 2) resolve(); };
      listener.on("message", (channel, text) => hear("message", channel, text));
      listener.on("pmessage", (pattern, channel, text) => hear("pmessage", pattern, channel, text));
    });
    assert.equal(await listener.subscribe("news"), 1);
    assert.equal(await listener.psubscribe("n*"), 2);
    assert.equal(await redis.publish("news", "hello"), 2);
    await all;
    assert.deepEqual(heard, [["message", "news", "hello"], ["pmessage", "n*", "news", "hello"]]);
    assert.equal(await listener.unsubscribe("news"), 1);
    await listener.quit();
  });

  test("keyspace events reach a subscriber", async () => {
    const listener = open();
    await redis.config("SET", "notify-keyspace-events", "Kg$");
    const told = new Promise((resolve) => listener.on("message", (_, event) => { if (event === "del") resolve(event); }));
    await listener.subscribe(`__keyspace@${databases.ioredis}__:k`);
    await redis.set("k", "v");
    await redis.del("k");
    assert.equal(await told, "del");
    await redis.config("SET", "notify-keyspace-events", "");
    await listener.quit();
  });

  test("a user sees only its keys", async () => {
    await redis.call("ACL", "SETUSER", "node", "on", ">secret", "~node:*", "+@all");
    const user = open({ username: "node", password: "secret" });
    assert.equal(await user.set("node:1", "v"), "OK");
    await assert.rejects(user.get("other"), /NOPERM/);
    await user.quit();
    await redis.call("ACL", "DELUSER", "node");
  });
});
