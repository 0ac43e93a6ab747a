import assert from "node:assert/strict";
import { after, before, beforeEach, describe, test } from "node:test";
import { createClient, RESP_TYPES, WatchError } from "redis";
import { databases, host, port } from "./target.js";

const open = async (options = {}) => {
  const client = createClient({ socket: { host, port, reconnectStrategy: false }, database: databases.nodeRedis, ...options });
  client.on("error", () => {});
  return client.connect();
};

for (const RESP of [2, 3]) {
  describe(`node-redis RESP${RESP}`, () => {
    let client;
    before(async () => { client = await open({ RESP }); });
    after(() => client.close());
    beforeEach(() => client.flushDb());

    test("the handshake succeeds", async () => {
      assert.equal(client.isReady, true);
      assert.equal(await client.ping(), "PONG");
    });

    test("strings", async () => {
      assert.equal(await client.set("k", "v", { expiration: { type: "EX", value: 100 } }), "OK");
      assert.equal(await client.get("k"), "v");
      // No time passes within a transaction.
      assert.deepEqual(await client.multi().expire("k", 100).ttl("k").exec(), [1, 100]);
      assert.equal(await client.set("k", "w", { condition: "NX" }), null);
      assert.deepEqual(await client.mGet(["k", "none"]), ["v", null]);
      assert.equal(await client.incrBy("n", 5), 5);
    });

    test("hashes are objects", async () => {
      assert.equal(await client.hSet("h", { a: 1, b: "two" }), 2);
      assert.deepEqual({ ...(await client.hGetAll("h")) }, { a: "1", b: "two" });
      assert.deepEqual(await client.hmGet("h", ["a", "none"]), ["1", null]);
    });

    test("sets and lists", async () => {
      await client.sAdd("s", ["a", "b"]);
      assert.deepEqual([...(await client.sMembers("s"))].sort(), ["a", "b"]);
      assert.equal(await client.sIsMember("s", "a"), 1);
      await client.rPush("l", ["1", "2"]);
      assert.deepEqual(await client.lRange("l", 0, -1), ["1", "2"]);
    });

    test("scores are numbers", async () => {
      await client.zAdd("z", [{ score: 1, value: "a" }, { score: 2.5, value: "b" }, { score: Infinity, value: "c" }]);
      assert.equal(await client.zScore("z", "b"), 2.5);
      assert.equal(await client.zScore("z", "none"), null);
      assert.deepEqual((await client.zRangeWithScores("z", 0, -1)).map((one) => ({ ...one })), [
        { value: "a", score: 1 }, { value: "b", score: 2.5 }, { value: "c", score: Infinity },
      ]);
      assert.deepEqual({ ...(await client.zPopMin("z")) }, { value: "a", score: 1 });
    });

    test("commands of one turn are pipelined", async () => {
      const replies = await Promise.all(Array.from({ length: 2000 }, () => client.incr("n")));
      assert.deepEqual(replies, Array.from({ length: 2000 }, (_, index) => index + 1));
    });

    test("transactions", async () => {
      assert.deepEqual(await client.multi().set("k", 1).incr("k").get("k").exec(), ["OK", 2, "2"]);
    });

    test("a runtime error stands among the replies", async () => {
      const failure = await client.multi().set("s", "v").lPush("s", "x").get("s").exec().then(() => null, (error) => error);
      assert.match(failure.replies[1].message, /^WRONGTYPE/);
      assert.equal(await client.get("s"), "v");
    });

    test("watch raises when touched", async () => {
      const mine = await open({ RESP });
      await mine.watch("k");
      await client.set("k", "theirs");
      await assert.rejects(mine.multi().set("k", "mine").exec(), WatchError);
      assert.equal(await client.get("k"), "theirs");
      await mine.close();
    });

    test("blocking pop", async () => {
      const waiting = await open({ RESP });
      const reply = waiting.blPop("q", 5);
      await client.rPush("q", "job");
      assert.deepEqual({ ...(await reply) }, { key: "q", element: "job" });
      assert.equal(await waiting.blPop("q", 0.05), null);
      await waiting.close();
    });

    test("scan iterator", async () => {
      await client.mSet(Array.from({ length: 400 }, (_, index) => [`k${index}`, "v"]));
      const found = new Set();
      for await (const keys of client.scanIterator({ MATCH: "k*", COUNT: 40 })) keys.forEach((key) => found.add(key));
      assert.equal(found.size, 400);
    });

    test("zscan iterator", async () => {
      await client.zAdd("z", Array.from({ length: 300 }, (_, index) => ({ score: index, value: `m${index}` })));
      const found = new Map();
      for await (const page of client.zScanIterator("z")) page.forEach(({ value, score }) => found.set(value, score));
      assert.equal(found.size, 300);
      assert.equal(found.get("m7"), 7);
    });

    test("errors carry the server's words", async () => {
      await assert.rejects(client.sendCommand(["NOSUCH"]), /ERR unknown command 'NOSUCH', with args beginning with: $/);
    });
  });
}

describe("node-redis RESP3 types", () => {
  test("a map stays a map, a double a number", async () => {
    const client = await open({ RESP: 3 });
    const typed = client.withTypeMapping({ [RESP_TYPES.MAP]: Map });
    await client.flushDb();
    await typed.hSet("h", "a", "1");
    assert.deepEqual(await typed.sendCommand(["HGETALL", "h"]), new Map([["a", "1"]]));
    await client.zAdd("z", { score: 1.5, value: "m" });
    assert.equal(await client.sendCommand(["ZSCORE", "z", "m"]), 1.5);
    assert.equal(await client.sendCommand(["GET", "none"]), null);
    await client.close();
  });
});
