// ioredis over TLS, as client of a cluster and as client of a sentinel; started by tests/redis/clients/test_modes.py.
import assert from "node:assert";
import { readFileSync } from "node:fs";
import Redis, { Cluster } from "ioredis";

const port = Number(process.env.QUARTET_REDIS_PORT);
const tls = { ca: readFileSync(process.env.QUARTET_ROOTS), servername: "localhost" };

const direct = new Redis({ port, tls, maxRetriesPerRequest: 1 });
assert.equal(await direct.set("node:direct", "1"), "OK");
assert.deepEqual(await direct.pipeline().get("node:direct").get("node:none").exec(), [[null, "1"], [null, null]]);
direct.disconnect();

for (const options of [{}, { tls }]) {
  const cluster = new Cluster([{ host: "127.0.0.1", port }], { redisOptions: options, clusterRetryStrategy: null });
  assert.equal(await cluster.mset("node:a", "1", "node:b", "2"), "OK");
  assert.deepEqual(await cluster.mget("node:a", "node:b"), ["1", "2"]);
  assert.equal(cluster.nodes("master").length, 1);
  cluster.disconnect();
}

const sentinels = [{ host: "127.0.0.1", port: Number(process.env.QUARTET_SENTINEL_PORT) }];
const asking = new Redis({ sentinels, name: "mymaster", role: "master", sentinelRetryStrategy: null });
assert.equal(await asking.set("node:sentinel", "1"), "OK");
asking.disconnect();
console.log("done");
