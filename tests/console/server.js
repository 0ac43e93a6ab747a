// A server of one's own, with a root key, and what a test has to know of it.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BINARY = process.env.QUARTET_BIN ?? new URL("../../target/release/quartet", import.meta.url).pathname;

/** Starts a server; `options` go to its command line. Nodes of a cluster show no root key before they are ready: they are given one. */
export async function startServer(...options) {
  const data = await mkdtemp(join(tmpdir(), "quartet-console-"));
  const listeners = ["redis", "http", "dynamodb", "fauna", "keyvalue"].flatMap((name) => [`--listen-${name}`, "127.0.0.1:0"]);
  const child = spawn(BINARY, ["serve", "--data", data, "--durability", "none", ...listeners, ...options], { stdio: ["ignore", "pipe", "inherit"] });
  const server = { addresses: {} };
  server.close = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await gone;
    }
    await rm(data, { recursive: true, force: true });
  };
  server.isAlive = () => child.exitCode === null && child.signalCode === null;
  for await (const line of createInterface({ input: child.stdout })) {
    const key = /^root key, shown this once: (\S+)/.exec(line);
    const access = /^DynamoDB access key (\S+), secret, shown this once: (\S+)/.exec(line);
    const listener = /^(\w+)\s+(\w+:\/\/\S+)$/.exec(line);
    if (key) server.key = key[1];
    if (access) server.accessKey = { id: access[1], secret: access[2] };
    if (listener) server.addresses[listener[1]] = listener[2];
    if (line.trim() === "ready") break;
  }
  if (!server.addresses.http) throw new Error("the server did not get ready");
  child.stdout.resume();
  server.url = server.addresses.console ?? `${server.addresses.http}/`;
  return server;
}

/** The admin API. */
export async function admin(server, method, path, body) {
  const answer = await fetch(new URL("/admin/v1/" + path, server.url), {
    method,
    headers: { authorization: `Bearer ${server.key}` },
    body: body && JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

/** One command over REST. */
export async function redis(server, token, ...words) {
  const answer = await fetch(server.url, { method: "POST", headers: { authorization: `Bearer ${token}` }, body: JSON.stringify(words) });
  return (await answer.json()).result;
}
