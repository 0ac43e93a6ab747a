// ioredis as client of the sentinels of a cluster: once with its own subscription to them, once without. For each line of the input
// it says how long the longest write took since the line before, and where each client is connected. Started by
// tests/cluster/python/test_sentinels.py.
import { createInterface } from "node:readline";
import Redis from "ioredis";

const ports = process.env.QUARTET_SENTINEL_PORTS.split(" ");
const sentinels = ports.map((port) => ({ host: "127.0.0.1", port: Number(port) }));
const again = () => 50;
const clients = [true, false].map(
  (failoverDetector) =>
    new Redis({
      sentinels,
      name: "mymaster",
      role: "master",
      failoverDetector,
      maxRetriesPerRequest: null,
      retryStrategy: again,
      sentinelRetryStrategy: again,
      sentinelReconnectStrategy: again,
      connectTimeout: 1000,
    }),
);
let longest = clients.map(() => 0);
let refused = [];
let isOver = false;
const write = async (client, index) => {
  client.on("error", () => {});
  // ioredis 6.0.0 ends if its own subscription reports a change while it is asking sentinels.
  client.on("end", () => isOver || client.connect().catch(() => {}));
  for (let number = 0; !isOver; number += 1) {
    const began = Date.now();
    for (;;) {
      try {
        await client.set(`ioredis:${index}`, number);
        break;
      } catch (error) {
        refused.push(error.message);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
    longest[index] = Math.max(longest[index], Date.now() - began);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
const writing = clients.map(write);
for await (const _ of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify({ longest, refused, ports: clients.map((client) => client.stream?.remotePort) }));
  longest = clients.map(() => 0);
  refused = [];
}
isOver = true;
await Promise.all(writing);
clients.forEach((client) => client.disconnect());
