// socket.io with the Redis adapter: what a client of one server sends reaches a client of the other, before the kill and after it.

import { createServer } from "node:http";

import { createAdapter } from "@socket.io/redis-adapter";
import { Redis } from "ioredis";
import { Server } from "socket.io";
import { io } from "socket.io-client";

import { done, pause, patiently, port, until } from "./patience.js";

function redis() {
  const client = new Redis({ host: "127.0.0.1", port, maxRetriesPerRequest: null, retryStrategy: () => 50 });
  client.on("error", () => {});
  return client;
}

async function server() {
  const http = createServer();
  const sockets = new Server(http);
  sockets.adapter(createAdapter(redis(), redis()));
  sockets.on("connection", (socket) => socket.on("say", (text) => sockets.emit("said", text)));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  return io(`http://127.0.0.1:${http.address().port}`, { transports: ["websocket"] });
}

const [speaker, listener] = [await server(), await server()];
const heard = new Set();
listener.on("said", (text) => heard.add(text));
await until("both are connected", async () => speaker.connected && listener.connected);

// Messages are told at most once, as Redis does; so each is said until it is heard.
async function say(text) {
  await until(`${text} is heard`, async () => {
    speaker.emit("say", text);
    await pause(20);
    return heard.has(text);
  });
}

const keeper = redis();
for (let number = 0; number < 50; number++) {
  await say(`message ${number}`);
  await patiently(() => keeper.rpush("history", number));
  if (number === 25) console.log("HALFWAY");
}
const history = await patiently(() => keeper.lrange("history", 0, -1));
const kept = new Set(history.map(Number));
if (kept.size !== 50) throw new Error(`${kept.size} of 50 messages are kept`);
done(`${heard.size} messages heard`);
