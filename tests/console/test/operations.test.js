// The console's other pages: what happens now, how the server does, its databases, and how to connect.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import faunadb from "faunadb";
import { click, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { admin, redis, startServer } from "../server.js";

const q = faunadb.query;
/** Where pictures for the documents go; none are made otherwise. */
const PICTURES = process.env.CONSOLE_PICTURES && new URL(`../../../${process.env.CONSOLE_PICTURES}`, import.meta.url).pathname;
let server, browser;

before(async () => {
  [server, browser] = await Promise.all([startServer(), openBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

async function asOperator(t, options) {
  const page = await openPage(browser, options);
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  t.after(() => page.finish());
  return page;
}

const go = (page, ...parts) => page.evaluate((hash) => void (location.hash = hash), "#/" + parts.map(encodeURIComponent).join("/"));

test("events of keys are shown as they happen", async (t) => {
  const page = await asOperator(t);
  await go(page, "tail", "default");
  await waitForText(page, "0 events · notifications are off", "[role=status]");
  await click(page, "#turn-on");
  await page.waitForFunction(() => !document.querySelector("#turn-on"));
  await waitForText(page, "listening", "#view");
  // The subscription may come a little after the page says so.
  for (let index = 0; !(await page.$("#events td")); index++) await redis(server, server.key, "SET", "tail:<b>", String(index));
  await waitForText(page, "tail:<b>", "#events");
  await waitForText(page, "set", "#events");
});

test("changes of documents are shown as they happen", async (t) => {
  const { hostname, port } = new URL(server.addresses.fauna);
  const client = new faunadb.Client({ secret: server.key, domain: hostname, port: Number(port), scheme: "http", http2SessionIdleTime: 0 });
  t.after(() => client.close({ force: true }));
  await client.query(q.CreateCollection({ name: "live" }));
  const document = q.Ref(q.Collection("live"), "1");
  await client.query(q.Create(document, { data: { number: 0 } }));
  const page = await asOperator(t);
  await go(page, "fauna", "default", "", "collection", "live", "1");
  await page.waitForSelector("section[aria-label=Document] #document-data");
  await page.$eval("section[aria-label=Document] a", (link) => link.click());
  await waitForText(page, "start", "#events");
  await client.query(q.Update(document, { data: { number: 42 } }));
  await waitForText(page, "42", "#events");
});

test("charts, figures, slow requests and the biggest keys", async (t) => {
  await redis(server, server.key, "CONFIG", "SET", "slowlog-log-slower-than", "0");
  await redis(server, server.key, "SET", "big:<i>", "x".repeat(20_000));
  await redis(server, server.key, "CONFIG", "SET", "slowlog-log-slower-than", "10000");
  const page = await asOperator(t);
  await go(page, "operations", "default");
  await page.waitForFunction(() => document.querySelectorAll("#charts polyline").length >= 6);
  await page.waitForFunction(() => document.querySelector("#charts polyline").getAttribute("points").split(" ").length >= 2);
  // Each chart says what its lines are worth: values at the side down to zero, times below, and the last value large.
  const charts = await page.$$eval("#charts .card", (cards) =>
    cards.map((card) => ({
      scale: [...card.querySelectorAll(".scale span")].map((tick) => tick.innerText),
      times: [...card.querySelectorAll(".times span")].map((tick) => tick.innerText),
      latest: [...card.querySelectorAll(".latest b")].map((value) => value.innerText),
      zero: card.querySelectorAll("line.zero").length,
    })),
  );
  for (const { scale, times, latest, zero } of charts) {
    assert.equal(scale.length, 3);
    assert.match(scale[2], /^0\b/);
    assert.notEqual(parseFloat(scale[0]), 0);
    assert.equal(new Set(times).size, 3);
    for (const time of times) assert.match(time, /^\d\d:\d\d:\d\d$/);
    assert.ok(latest.length >= 1 && latest.every((value) => /^[\d.]+/.test(value)), latest);
    assert.equal(zero, 1);
    // An idle server's chart had 1, 0.5 and 0 requests at its side.
    for (const tick of scale.filter((tick) => !/B(\/s)?$/.test(tick))) assert.match(tick, /^\d+(\.\d+ [kM])?(\/s| µs| %)?$/);
  }
  const requests = charts[0].scale;
  assert.ok(requests.every((tick) => tick.endsWith("/s")), requests);
  for (const title of ["Durability", "Durable version", "Checkpoints", "Connections"]) await waitForText(page, title, "#figures");
  await waitForText(page, "none", "#figures");
  await waitForText(page, "big:<i>", "#slow");
  await click(page, "#biggest");
  await waitForText(page, "big:<i>", "#view a");
});

test("every layer has a colour of its own, and is among the slow operations", async (t) => {
  const [fauna, dynamodb] = [server.addresses.fauna, server.addresses.dynamodb];
  await fetch(fauna, { method: "POST", headers: { authorization: `Bearer ${server.key}` }, body: '{"add":[1,2]}' });
  await fetch(dynamodb, { method: "POST", headers: { "x-amz-target": "DynamoDB_20120810.DescribeEndpoints" }, body: "{}" });
  const page = await asOperator(t);
  await go(page, "operations", "default");
  await page.waitForFunction(() => document.querySelectorAll("#charts .card:first-child polyline").length >= 3);
  const colours = await page.$$eval("#charts .card:first-child polyline", (lines) => lines.map((line) => getComputedStyle(line).stroke));
  assert.equal(new Set(colours).size, colours.length, colours.join());
  const palette = await page.evaluate(() => {
    const chart = document.querySelector("#charts svg");
    return [..."abcdefg"].map((name) => {
      const line = chart.querySelector("polyline").cloneNode();
      line.setAttribute("class", name);
      chart.append(line);
      return getComputedStyle(line).stroke;
    });
  });
  assert.equal(new Set(palette).size, 7, palette.join());
  for (const layer of ["rest", "fauna"]) await waitForText(page, layer, "#slow-operations");
});

test("a database without keys shows how to begin, and makes sample data in every layer", async (t) => {
  const { credentials } = await admin(server, "POST", "databases", { name: "first" });
  t.after(() => admin(server, "DELETE", "databases/first"));
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, JSON.stringify(credentials));
  await waitForText(page, "first has no keys yet", "#welcome");
  await waitForText(page, "redis-cli -u redis://", "#welcome");
  await click(page, "#sample");
  await waitForText(page, "sample:person:ann", "#keys");
  assert.equal(await page.$("#welcome"), null);
  await go(page, "dynamodb", "first", "sample-orders");
  await waitForText(page, "ann", "#view");
  await go(page, "fauna", "first", "", "collection", "sample_people");
  await waitForText(page, "Lisbon", "#view");
  await go(page, "search", "first", "sample:people");
  await waitForText(page, "sample:people", "#view");
});

test("databases are made, used, changed and deleted", async (t) => {
  const page = await asOperator(t);
  await go(page, "databases", "default");
  await click(page, "#new-database");
  await fill(page, "#database-name", "press");
  await fill(page, "#connections", "7");
  await fill(page, "#stored_bytes", "a lot");
  await click(page, "#save");
  await waitForText(page, "a lot is no size", ".problem");
  await fill(page, "#stored_bytes", "1.5 GB");
  await click(page, "#save");
  await page.waitForSelector("#credentials");
  const { token } = JSON.parse(await page.$eval("#credentials", (element) => element.innerText));
  const variables = await page.$eval("#variables", (element) => element.innerText);
  assert.ok(variables.includes(`UPSTASH_REDIS_REST_TOKEN=${token}`) && variables.includes(`REDIS_URL=redis://press:${token}@`), variables);
  assert.equal((await admin(server, "GET", "databases/press")).quotas.stored_bytes, 1.5 * 1024 ** 3);
  await redis(server, token, "SET", "article:1", "news");
  // The session has the credentials it has just seen.
  await go(page, "redis", "press");
  await waitForText(page, "article:1", "#keys");
  await go(page, "fauna", "press");
  await waitForText(page, "Make a", "#view");
  await go(page, "databases", "default");
  await waitForText(page, "of 7", "#databases");
  await press(page, "Change");
  assert.equal(await page.$eval("#stored_bytes", (field) => field.value), "1536 MB");
  await press(page, "Cancel");
  await click(page, '[aria-label="Delete press"]');
  await fill(page, "dialog input", "press");
  await click(page, "#confirm");
  await page.waitForFunction(() => document.querySelectorAll("#databases tbody tr").length === 1);
});

test("a view that is open before its credential has come shows what it opens", async (t) => {
  const { credentials } = await admin(server, "POST", "databases", { name: "late" });
  t.after(() => admin(server, "DELETE", "databases/late"));
  await redis(server, credentials.token, "SET", "article:1", "news");
  const page = await asOperator(t);
  // The session's credentials are told again only when the test lets them.
  await page.evaluate(() => {
    const { fetch } = window;
    const release = new Promise((resolve) => (window.releaseSession = resolve));
    window.fetch = async (path, ...rest) => {
      if (path.endsWith("/session")) await release;
      return fetch(path, ...rest);
    };
  });
  await go(page, "login");
  await fill(page, "#credential", JSON.stringify(credentials));
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => location.hash === "#/");
  await go(page, "redis", "late");
  await waitForText(page, "no credential for Redis in late", "#view");
  await page.evaluate(() => window.releaseSession());
  await waitForText(page, "article:1", "#keys");
});

test("snippets work as they are pasted", async (t) => {
  const page = await asOperator(t);
  await go(page, "connect", "default");
  await page.waitForSelector(".snippet");
  const titles = await page.$$eval("#view section h2", (titles) => titles.map((title) => title.innerText));
  assert.deepEqual(titles, ["Redis", "Redis over REST", "FaunaDB", "DynamoDB", "Key-value"]);
  for (const [title, answer] of [["Redis over REST", /"OK"/], ["FaunaDB", /"resource": ?3/]]) {
    await page.$eval(`[aria-label="${title}"] [data-name=curl]`, (tab) => tab.click());
    const shown = await page.waitForFunction((title) => {
      const tabs = document.querySelector(`[aria-label="${title}"]`);
      const text = tabs.parentElement.querySelector(".snippet").innerText;
      return text.startsWith("curl") && text;
    }, {}, title);
    const snippet = await shown.jsonValue();
    const { stdout } = await promisify(execFile)("sh", ["-c", snippet.replaceAll("ROOT_KEY", server.key)]);
    assert.match(stdout, answer);
  }
});

test("a server for development asks for nothing", async (t) => {
  const open = await startServer("--dev");
  const page = await openPage(browser, { width: 1000, height: 620 });
  t.after(async () => {
    await page.finish().finally(() => open.close());
  });
  await page.goto(open.url);
  await page.waitForSelector("#keys");
  await waitForText(page, "development", ".who");
  const elsewhere = await fetch(new URL("/console/api/login", open.url), { method: "POST", headers: { origin: "http://elsewhere.example" }, body: "{}" });
  assert.equal(elsewhere.status, 403);
  if (PICTURES) await takePictures(page, open);
});

/** Pictures for `docs/console.md`, of a few things that look like somebody's. */
async function takePictures(page, open) {
  mkdirSync(PICTURES, { recursive: true });
  const command = (...words) => redis(open, "dev", ...words);
  for (let index = 1; index <= 9; index++) await command("HSET", `article:${index}`, "title", `Article number ${index}`, "views", String(index * 37), "section", "science");
  await command("ZADD", "ranking:today", "333", "article:9", "296", "article:8");
  await command("SET", "session:4f1c", '{"user": "ann"}', "EX", "3600");
  const save = (name) => page.screenshot({ path: `${PICTURES}/${name}.png`, optimizeForSpeed: false });
  await page.reload();
  await go(page, "redis", "default", "article:*", "article:3");
  await page.waitForSelector("#elements tbody tr");
  await save("keys");
  await go(page, "pad", "default", "FQL", 'Map([1, 2, 3], x => Multiply(x, x))');
  await page.waitForFunction(() => document.querySelector("#pad")?.value.startsWith("Map"));
  await click(page, "#run");
  await page.waitForSelector("#result");
  await press(page, "The same as code");
  await save("pad");
}
