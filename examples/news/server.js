// One page of news, three protocols, four drivers. `npm start`, then open the address that it prints.
//
// A request for the page's articles is timed as published: from the client's call to its answer, in this process. After it, and not
// timed, the ten articles get new random view counts. "Cold" makes a client anew for each request, as a function that just woke up.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { articles, randomViews, SECTIONS } from "./articles.js";
import { BAR_MS, Latency } from "./latency.js";
import { CIRCUMSTANCES, PUBLISHED } from "./published.js";
import { DynamoDbStore } from "./stores/dynamodb.js";
import { FaunaStore } from "./stores/fauna.js";
import { RedisStore } from "./stores/redis.js";
import { UpstashStore } from "./stores/upstash.js";

const STORES = { ioredis: RedisStore, "@upstash/redis": UpstashStore, "AWS SDK": DynamoDbStore, faunadb: FaunaStore };
const RUN_MAX = 1_000;
const FILES = { "/": "index.html", "/page.js": "page.js", "/page.css": "page.css" };
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };

export async function start(port = 0) {
  const quartet = await (await quartetServer())();
  const warm = Object.fromEntries(Object.entries(STORES).map(([name, Store]) => [name, new Store(quartet)]));
  const all = articles();
  for (const store of Object.values(warm)) await store.load(all);
  const news = new News(quartet, warm);
  const server = createServer((request, response) => answer(news, request, response));
  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  const stop = async () => {
    server.closeAllConnections();
    server.close();
    for (const store of Object.values(warm)) await store.close();
    await quartet.stop();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, stop };
}

/** The package of npm; in the repository itself the same module from its folder, with the binary that was built here. */
async function quartetServer() {
  const here = (path) => fileURLToPath(new URL(path, import.meta.url));
  const built = ["../../target/release/quartet", "../../target/debug/quartet"].map(here).find(existsSync);
  if (built) process.env.QUARTET_BIN ??= built;
  const folder = "../../packaging/npm/quartet-server/index.mjs";
  return (await import(existsSync(here(folder)) ? folder : "quartet-server")).startQuartet;
}

class News {
  constructor(quartet, warm) {
    this.quartet = quartet;
    this.warm = warm;
    this.latencies = Object.fromEntries(Object.keys(warm).map((driver) => [driver, { warm: new Latency(), cold: new Latency() }]));
  }

  async top(driver, section, isCold) {
    const began = process.hrtime.bigint();
    const store = isCold ? new STORES[driver](this.quartet, { isCold }) : this.warm[driver];
    const found = await store.top(section);
    const nanoseconds = Number(process.hrtime.bigint() - began);
    this.latencies[driver][isCold ? "cold" : "warm"].record(nanoseconds);
    for (const article of found) await this.warm[driver].rescore(article, randomViews());
    if (isCold) await store.close();
    return { articles: found, milliseconds: nanoseconds / 1e6 };
  }

  async run(driver, section, isCold, count) {
    for (let index = 0; index < count; index += 1) await this.top(driver, section, isCold);
    return { count };
  }

  histograms() {
    const summary = ({ warm, cold }) => ({ warm: warm.summary(), cold: cold.summary() });
    const drivers = Object.fromEntries(Object.entries(this.latencies).map(([driver, both]) => [driver, summary(both)]));
    return { bar: BAR_MS, drivers, published: PUBLISHED, circumstances: CIRCUMSTANCES };
  }
}

async function answer(news, request, response) {
  const url = new URL(request.url, "http://news");
  try {
    if (request.method === "GET" && FILES[url.pathname]) return file(response, FILES[url.pathname]);
    const told = await asked(news, request.method, url);
    if (told === undefined) return json(response, 404, { error: "nothing is here" });
    return json(response, 200, told);
  } catch (error) {
    return json(response, error instanceof RangeError ? 400 : 500, { error: error.message });
  }
}

/** What the page's script asks for; `undefined` if it is no such thing. */
function asked(news, method, { pathname, searchParams }) {
  if (method === "GET" && pathname === "/api/choices") return { sections: SECTIONS, drivers: Object.keys(STORES) };
  if (method === "GET" && pathname === "/api/histograms") return news.histograms();
  if (method !== "POST" || !["/api/top", "/api/run"].includes(pathname)) return undefined;
  const [driver, section] = [searchParams.get("driver"), searchParams.get("section")];
  if (!Object.hasOwn(STORES, driver) || !SECTIONS.includes(section)) throw new RangeError("no such driver or section");
  const isCold = searchParams.get("cold") === "true";
  if (pathname === "/api/top") return news.top(driver, section, isCold);
  const count = Number(searchParams.get("count"));
  if (!Number.isInteger(count) || count < 1 || count > RUN_MAX) throw new RangeError(`count: 1 to ${RUN_MAX}`);
  return news.run(driver, section, isCold, count);
}

function file(response, name) {
  response.writeHead(200, { "content-type": TYPES[name.split(".").pop()], "content-security-policy": "default-src 'self'; img-src 'self' data:", "cache-control": "no-store" });
  response.end(readFileSync(new URL(`public/${name}`, import.meta.url)));
}

function json(response, status, body) {
  response.writeHead(status, { "content-type": "application/json", "cache-control": "no-store" });
  response.end(JSON.stringify(body));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url, stop } = await start(Number(process.env.PORT ?? 3000));
  console.log(`news at ${url}`);
  for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop().then(() => process.exit(0)));
}
