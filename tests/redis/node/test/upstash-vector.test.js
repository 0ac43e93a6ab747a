// redis.vector of @upstash/redis over REST.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import { Redis } from "@upstash/redis";
import { httpPort } from "./target.js";

describe("redis.vector of @upstash/redis", { skip: !httpPort }, () => {
  const redis = httpPort ? new Redis({ url: `http://127.0.0.1:${httpPort}`, token: "dev", enableTelemetry: false, retry: false }) : undefined;
  let index;

  before(async () => {
    await redis.flushall();
    index = await redis.vector.createIndex({ name: "vectors", dimension: 3, metric: "COSINE" });
  });

  test("vectors are added, read, found and removed", async () => {
    assert.equal(await redis.type("vectors"), "vector");
    assert.equal(await index.add("a", [1, 0, 0]), 1);
    assert.equal(await index.add("b", new Float32Array([0, 1, 0])), 1);
    assert.equal(await index.add("b", new Float32Array([0, 2.5, 0])), 0);
    assert.deepEqual(await index.get("b"), [0, 2.5, 0]);
    assert.equal(await index.get("none"), null);
    assert.equal(await index.count(), 2);
    assert.deepEqual(await index.info(), { dimension: 3, metric: "COSINE" });
    const expected = [{ id: "a", score: 1 }, { id: "b", score: 0.5 }];
    assert.deepEqual(await index.query({ vector: [2, 0, 0], topK: 5 }), expected);
    for (const profile of ["FAST", "BALANCED", "PRECISE"]) {
      assert.deepEqual(await index.query({ vector: new Float32Array([2, 0, 0]), topK: 1, profile }), expected.slice(0, 1));
    }
    assert.equal(await index.delete("a"), 1);
    assert.equal(await index.delete("a"), 0);
    assert.deepEqual(await index.query({ vector: [0, 1, 0], topK: 5 }), [{ id: "b", score: 1 }]);
  });

  test("an index is made once, and dropped", async () => {
    await assert.rejects(redis.vector.createIndex({ name: "vectors", dimension: 3, metric: "COSINE" }), /Index vectors already exists/);
    await redis.vector.createIndex({ name: "vectors", dimension: 3, metric: "COSINE", existsOk: true });
    await assert.rejects(redis.vector.createIndex({ name: "vectors", dimension: 4, metric: "COSINE", existsOk: true }), /another dimension or metric/);
    await assert.rejects(index.add("a", [1, 2]), /The vector has 2 elements/);
    const none = redis.vector.index("none");
    assert.deepEqual([await none.count(), await none.info(), await none.drop()], [0, null, 0]);
    await assert.rejects(none.get("a"), /Index none is not found/);
    assert.equal(await index.drop(), 1);
    assert.equal(await redis.exists("vectors"), 0);
  });
});
