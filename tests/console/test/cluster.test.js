// The nodes of a cluster, seen by a browser that asks a node which is not home.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { logIn, openBrowser, openPage, waitForText } from "../browser.js";
import { startServer } from "../server.js";

const KEY = "a-key-that-both-nodes-are-given-0123456789";
const PATIENCE_MS = 60_000;
let etcd, browser;
const nodes = [];

/** Below the ports that the system gives to clients, so that none takes it before its server listens. */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const isFree = await new Promise((resolve) => {
      const probe = createServer().on("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (isFree && !given.has(port)) {
      given.add(port);
      return port;
    }
  }
}
const given = new Set();

/** Asks until `look` finds something. */
async function until(look, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look().catch(() => null);
    if (found) return found;
    if (Date.now() > end) throw new Error(`no ${what} within ${PATIENCE_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** One member is enough here: the page is what is tried. */
async function startEtcd() {
  const [client, peer] = [await freePort(), await freePort()];
  const data = await mkdtemp(join(tmpdir(), "quartet-console-etcd-"));
  const urls = [`--listen-client-urls=http://127.0.0.1:${client}`, `--advertise-client-urls=http://127.0.0.1:${client}`];
  urls.push(`--listen-peer-urls=http://127.0.0.1:${peer}`, `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`, `--initial-cluster=default=http://127.0.0.1:${peer}`);
  const child = spawn(process.env.QUARTET_ETCD ?? "etcd", [`--data-dir=${data}`, "--log-level=error", ...urls], { stdio: "ignore" });
  const close = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
    await rm(data, { recursive: true, force: true });
  };
  await until(async () => (await fetch(`http://127.0.0.1:${client}/health`)).ok, "etcd");
  return { log: `etcd://127.0.0.1:${client}/console`, close };
}

async function startNode(name) {
  const own = ["--log", etcd.log, "--node-name", name, "--node-listen", `127.0.0.1:${await freePort()}`, "--cluster-nodes", "2"];
  const node = await startServer(...own, "--etcd-allow-one-member", "--etcd-allow-stale-reads", "--root-key", KEY);
  node.name = name;
  nodes.push(node);
  return node;
}

before(async () => {
  [etcd, browser] = await Promise.all([startEtcd(), openBrowser()]);
  await startNode("first");
  await until(async () => (await fetch(new URL("/healthz/home", nodes[0].url))).ok, "home");
  await startNode("second");
});
after(async () => {
  await browser?.close();
  for (const node of nodes) await node.close();
  await etcd?.close();
});

test("nodes are shown and looked at again, at a node that is not home", async (t) => {
  const other = nodes[1];
  const page = await openPage(browser);
  t.after(() => page.finish());
  await until(async () => (await fetch(new URL("/readyz", other.url))).ok, "node that knows its home");
  await logIn(page, other, KEY);
  await page.waitForSelector("#keys");
  await page.evaluate(() => void (location.hash = "#/operations/default"));
  const row = (name) => page.$$eval("#nodes tbody tr", (rows, name) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)).find(([first]) => first === name), name);
  const isShownAs = (name, part) => until(async () => (await row(name))?.[2] === part, `${name} that ${part}`);
  // On a loaded machine the second may have become home meanwhile.
  const parts = async () => (await Promise.all(["first", "second"].map(row))).map((cells) => cells[2]).sort().join(" ");
  await until(async () => (await parts()) === "follows home, commits", "home with a node that follows");
  await waitForText(page, "2 nodes configured", "#nodes");
  const figures = (await row("second")).slice(3);
  if (!(figures.length === 4 && figures.every((figure) => /^(-?[\d,]+|not known)$/.test(figure)))) throw new Error(`no figures: ${figures}`);
  const third = await startNode("third");
  await isShownAs("third", "follows");
  await third.close();
  // Its key goes with its lease.
  await isShownAs("third", "away");
});
