// ioredis as client of the sentinels of a cluster whose home is killed; started by tests/cluster/python/test_redis.py.
import assert from "node:assert";
import { once } from "node:events";
import Redis from "ioredis";

const ports = process.env.QUARTET_SENTINEL_PORTS.split(" ");
const sentinels = ports.map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const again = () => 100;
const client = new Redis({
  sentinels,
  name: "mymaster",
  role: "master",
  maxRetriesPerRequest: null,
  retryStrategy: again,
  sentinelRetryStrategy: again,
  connectTimeout: 2000,
});
client.on("error", () => {});

/** Again, if the home refuses it because it is not sure of being one: on a loaded machine etcd may be silent for a second. */
const asked = async (request) => {
  for (;;) {
    try {
      return await request();
    } catch (error) {
      if (!/^MASTERDOWN/.test(error.message)) throw error;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
};

let number = 0;
let home = 0;
const write = async () => {
  number += 1;
  assert.equal(await asked(() => client.set(`ioredis:${number}`, number)), "OK");
};
while (number < 20) await write();
home = client.stream.remotePort;
console.log("writes");
while (client.stream.remotePort === home || client.status !== "ready") {
  await write();
  await new Promise((resolve) => setTimeout(resolve, 10));
}
console.log(`left ${home}`);
const last = number + 20;
while (number < last) await write();
for (let written = 1; written <= number; written += 1) {
  assert.equal(await asked(() => client.get(`ioredis:${written}`)), String(written));
}
process.stdin.resume();
await once(process.stdin, "end");
client.disconnect();
console.log("done");
