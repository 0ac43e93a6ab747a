// Redis in the console, in a browser: logging in, browsing, editing, the pad, and who may not.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { click, choose, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { admin, redis, startServer } from "../server.js";

const PAGE_BYTES_MAX = 200_000;
let server, browser;

before(async () => {
  [server, browser] = await Promise.all([startServer("--rest-read-only-token", "looker"), openBrowser()]);
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

const go = (page, hash) => page.evaluate((hash) => void (location.hash = hash), hash);

test("a browser gets the page, and a client of REST what it got before", async () => {
  const asBrowser = await fetch(server.url, { headers: { accept: "text/html,*/*" } });
  assert.match(await asBrowser.text(), /<title>Quartet<\/title>/);
  const policy = asBrowser.headers.get("content-security-policy");
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe/);
  const asClient = await fetch(server.url, { headers: { authorization: `Bearer ${server.key}` } });
  assert.equal(asClient.headers.get("content-type"), "application/json");
  assert.equal(asClient.status, 400);
});

test("a wrong credential is refused, and a right one opens the page with nothing from elsewhere", async (t) => {
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, "wrong");
  await waitForText(page, "opens nothing", ".problem");
  await fill(page, "#credential", server.key);
  await page.keyboard.press("Enter");
  await page.waitForSelector("#keys");
  const { origin } = new URL(server.url);
  assert.deepEqual(page.seen.requests.filter((url) => new URL(url).origin !== origin), []);
  const cookies = await page.browserContext().cookies();
  assert.deepEqual(cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite]), [[true, "Strict"]]);
  const bytes = await page.evaluate(() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation")).filter(({ name }) => !name.includes("/api/")).reduce((sum, { transferSize }) => sum + transferSize, 0));
  assert.ok(bytes > 10_000 && (bytes < PAGE_BYTES_MAX || process.env.CONSOLE_FROM_DISK), `${bytes} bytes`);
  await page.reload();
  await page.waitForSelector("#keys");
  await click(page, "#logout");
  await page.waitForSelector("#credential");
});

test("a session needs its cookie, its proof and the page's own origin", async () => {
  const ask = (path, headers, body) => fetch(new URL("/console/api/" + path, server.url), { method: body ? "POST" : "GET", headers, body });
  const opened = await ask("login", { "content-type": "application/json" }, JSON.stringify({ credential: server.key }));
  assert.doesNotMatch(opened.headers.get("set-cookie"), /Secure/);
  const overTls = await ask("login", { origin: new URL(server.url).origin.replace("http:", "https:") }, JSON.stringify({ credential: server.key }));
  assert.match(overTls.headers.get("set-cookie"), /; Path=\/console\/; HttpOnly; SameSite=Strict; Secure$/);
  const cookie = opened.headers.get("set-cookie").split(";")[0];
  const { proof } = await opened.json();
  const good = { cookie, "x-quartet-proof": proof };
  const status = async (headers) => (await ask("session", headers)).status;
  const opens = async (headers) => (await (await ask("session", headers)).json()) !== null;
  const commanded = async (headers) => (await ask("redis/default/", headers, '["PING"]')).status;
  assert.equal(await opens(good), true);
  // A visitor without a session gets 200 and null: a refusal would be an error in the browser's console at every first visit.
  const strangers = [{}, { cookie }, { "x-quartet-proof": proof }, { ...good, "x-quartet-proof": proof.replace(/./g, "0") }];
  for (const headers of strangers) {
    assert.equal(await status(headers), 200);
    assert.equal(await opens(headers), false);
    assert.equal(await commanded(headers), 401);
  }
  assert.equal(await status({ ...good, origin: "http://elsewhere.example" }), 403);
  assert.equal(await status({ ...good, "sec-fetch-site": "same-site" }), 403);
  assert.equal(await status({ ...good, origin: new URL(server.url).origin }), 200);
  assert.equal((await ask("redis/default/", good, '["PING"]')).headers.get("access-control-allow-origin"), null);
  assert.equal((await ask("redis/default/", { "x-quartet-proof": proof }, '["PING"]')).status, 401);
  await ask("logout", good, "{}");
  assert.equal(await opens(good), false);
  assert.equal(await commanded(good), 401);
});

test("a login whose length is not announced is read like any other", async () => {
  const body = new Blob([JSON.stringify({ credential: server.key })]).stream();
  const answer = await fetch(new URL("/console/api/login", server.url), { method: "POST", body, duplex: "half" });
  assert.equal(answer.status, 200);
});

test("guesses at a credential are slowed down", async () => {
  const guess = async () => {
    const began = performance.now();
    await fetch(new URL("/console/api/login", server.url), { method: "POST", body: '{"credential": "guess"}' });
    return performance.now() - began;
  };
  let slowest = 0;
  for (let index = 0; index < 14 && slowest < 100; index++) slowest = Math.max(slowest, await guess());
  assert.ok(slowest >= 100, `${slowest} ms`);
});

test("a key of each type is made, shown, changed and removed", async (t) => {
  const page = await asOperator(t);
  const make = async (type, name, ...values) => {
    await click(page, "#new-key");
    await fill(page, "#new-name", name);
    await choose(page, "#new-type", type);
    const fields = await page.$$("section[aria-label='New key'] textarea");
    for (const [index, value] of values.entries()) {
      await fields[index].focus();
      await page.keyboard.sendCharacter(value);
    }
    await click(page, "#create");
    await waitForText(page, name, "#key-name");
  };
  await make("string", "t:string", "first");
  await page.waitForSelector("#string-value");
  await fill(page, "#string-value", "second ☃");
  await click(page, "#save");
  await page.waitForSelector("#save:disabled");
  assert.equal(await redis(server, server.key, "GET", "t:string"), "second ☃");
  await fill(page, "#ttl", "100000");
  await page.keyboard.press("Enter");
  await waitForText(page, "28 h", "#keys");
  const added = { hash: ["field2", "value2"], list: ["element2"], set: ["member2"], zset: ["2", "member2"], stream: ["", "field value"] };
  const begun = { hash: ["field1", "value1"], list: ["element1"], set: ["member1"], zset: ["1", "member1"], stream: ["f v"] };
  for (const [type, values] of Object.entries(begun)) {
    await make(type, `t:${type}`, ...values);
    await page.waitForSelector("#elements tbody tr");
    const inputs = await page.$$("section[aria-label=Key] input[aria-label^='New ']");
    for (const [index, value] of added[type].entries()) {
      await inputs[index].focus();
      await page.keyboard.sendCharacter(value);
    }
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelectorAll("#elements tbody tr").length === 2);
    await page.$eval("#elements tbody tr:last-child button.danger", (button) => button.click());
    await page.waitForFunction(() => document.querySelectorAll("#elements tbody tr").length === 1);
  }
  await make("JSON", "t:json", '{"a": [1, 2]}');
  await fill(page, "#json-value", '{"a": [1, 2, 3]}');
  await click(page, "#save");
  await page.waitForSelector("#save:disabled");
  assert.equal(await redis(server, server.key, "JSON.GET", "t:json"), '{"a":[1,2,3]}');
  await click(page, "#delete-key");
  await click(page, "#confirm");
  await page.waitForFunction(() => !document.querySelector("#key-name"));
  assert.equal(await redis(server, server.key, "EXISTS", "t:json"), 0);
  // The tree has their prefix.
  await waitForText(page, "t:", "aside");
});

test("names and values that look like markup are text", async (t) => {
  const name = "<script>alert(1)</script><img src=x onerror=alert(2)>";
  await redis(server, server.key, "SET", name, name);
  await redis(server, server.key, "HSET", "x:<b>:hash", name, name);
  const page = await asOperator(t);
  await fill(page, "#search", "<script>");
  await waitForText(page, name, "#keys");
  // The whole list may stand there still.
  await page.evaluate((name) => [...document.querySelectorAll("#keys a.key")].find((link) => link.innerText.includes(name)).click(), name);
  await page.waitForFunction((name) => document.querySelector("#string-value")?.value === name, {}, name);
  await go(page, "#/redis/default/" + encodeURIComponent("x:*") + "/" + encodeURIComponent("x:<b>:hash"));
  await waitForText(page, name, "#elements");
  assert.equal(await page.$("#view script, #view img"), null);
});

test("bytes that are no text are shown and kept", async (t) => {
  const bytes = "%ff%00%c3";
  await fetch(new URL(`/set/${bytes}/${bytes}`, server.url), { headers: { authorization: `Bearer ${server.key}` } });
  const page = await asOperator(t);
  await waitForText(page, "\\xff\\x00\\xc3", "#keys");
  await page.evaluate(() => [...document.querySelectorAll("#keys a.key")].find((link) => link.innerText.includes("\\xff")).click());
  await page.waitForFunction(() => document.querySelector("#string-value")?.value === "\\xff\\x00\\xc3");
  assert.ok(await page.$eval("#string-value", (field) => field.readOnly));
});

test("many keys come page by page, are counted before they are deleted, and only those", async (t) => {
  const names = Array.from({ length: 1234 }, (_, index) => `many:${index}`);
  await redis(server, server.key, "MSET", ...names.flatMap((name) => [name, "x"]));
  await redis(server, server.key, "SET", "stays", "x");
  const page = await asOperator(t);
  await fill(page, "#search", "many:*");
  await waitForText(page, "more to come", "#shown-count");
  const shown = () => page.$$eval("#keys tbody tr", (rows) => rows.length);
  const first = await shown();
  assert.ok(first < 1234, `${first} rows at once`);
  await click(page, "#more");
  await page.waitForFunction((first) => document.querySelectorAll("#keys tbody tr").length > first, {}, first);
  await press(page, "Delete matching…");
  await waitForText(page, "Delete all 1,234 keys", "dialog");
  assert.ok(await page.$eval("#confirm", (button) => button.disabled));
  await fill(page, "dialog input", "1234");
  await click(page, "#confirm");
  await waitForText(page, "No keys.", "#view");
  assert.equal(await redis(server, server.key, "EXISTS", "stays"), 1);
});

test("the pad runs lines of redis-cli, completes names and writes programs", async (t) => {
  const page = await asOperator(t);
  await go(page, "#/pad/default");
  await fill(page, "#pad", 'SET pad:1 "two words"\n# a remark\nGET pad:1\nLPUSH pad:1 x');
  await click(page, "#run");
  await waitForText(page, '"two words"', "#result");
  await waitForText(page, "(error) WRONGTYPE", "#result");
  await press(page, "The same as code");
  for (const [language, line] of [["Python", 'r.execute_command("GET", "pad:1")'], ["JavaScript", 'redis.call("GET", "pad:1")'], ["Go", 'client.Do(ctx, "GET", "pad:1")'], ["Java", '"GET".getBytes()']]) {
    await press(page, language);
    await waitForText(page, line, "#code");
  }
  await fill(page, "#pad", 'PING\nGET "open');
  await click(page, "#run");
  await waitForText(page, "line 2: ", ".problem");
  await fill(page, "#pad", "PING\n\nNOSUCH\nPING");
  await click(page, "#run");
  await waitForText(page, "line 3: (error) ERR unknown command", "#result .wrong");
  assert.equal(await page.$$eval("#result .wrong", (parts) => parts.length), 1);
  await fill(page, "#pad", "ZRANGEBYS");
  await waitForText(page, "ZRANGEBYSCORE", ".complete");
  await page.keyboard.press("Tab");
  await page.waitForFunction(() => document.querySelector("#pad").value === "ZRANGEBYSCORE");
});

test("a key is looked at as it was, through its types and after it is gone", async (t) => {
  await redis(server, server.key, "SET", "was:1", "first");
  await redis(server, server.key, "SET", "was:10", "another's");
  await redis(server, server.key, "DEL", "was:1");
  await redis(server, server.key, "HSET", "was:1", "field", "<b>");
  await redis(server, server.key, "DEL", "was:1");
  const page = await asOperator(t);
  await fill(page, "#search", "was:1");
  await press(page, "Open “was:1”");
  await waitForText(page, "There is no such key.", "section[aria-label=Key]");
  await page.$eval("details.as-of summary", (summary) => summary.click());
  await waitForText(page, "4 of 4", "details.as-of");
  await (await page.waitForSelector("#moment")).focus();
  const seen = [];
  for (let left = 3; left >= 0; left--) {
    seen.push(await page.$eval("#moment-text", (element) => element.innerText));
    await page.keyboard.press("ArrowLeft");
    await waitForText(page, `${Math.max(1, left)} of 4`, "details.as-of");
  }
  assert.deepEqual([seen[0], seen[2], seen[3]], ["(deleted)", "(deleted)", "first"]);
  assert.match(seen[1], /"field".*"<b>"/s);
});

test("a token that may only read opens keys and changes none", async (t) => {
  await redis(server, server.key, "SET", "locked", "as it was");
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, "looker");
  await waitForText(page, "NOPERM", ".problem");
  await fill(page, "#search", "locked");
  await press(page, "Open “locked”");
  await page.waitForSelector("#string-value");
  await fill(page, "#string-value", "changed");
  await click(page, "#save");
  await waitForText(page, "NOPERM", "section[aria-label=Key] .problem");
  assert.equal(await redis(server, server.key, "GET", "locked"), "as it was");
});

test("a database's credentials open that database alone, within its quotas", async (t) => {
  const { credentials } = await admin(server, "POST", "databases", { name: "shop", quotas: { request_bytes: 1000 } });
  await redis(server, credentials.token, "SET", "shop:1", "lamp");
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, JSON.stringify(credentials));
  await waitForText(page, "shop:1", "#keys");
  assert.deepEqual(await page.$$eval(".tree > ul > li > .node .title", (titles) => titles.map((title) => title.innerText)), ["shop"]);
  await go(page, "#/pad/shop");
  await fill(page, "#pad", `SET big ${"x".repeat(2000)}`);
  await click(page, "#run");
  await waitForText(page, "max request size exceeded", "#result");
  const { usage } = await admin(server, "GET", "databases/shop");
  assert.ok(usage.commands > 5 && usage.refused > 0, JSON.stringify(usage));
});

test("a user of Redis logs in with a name and a password", async (t) => {
  await redis(server, server.key, "ACL", "SETUSER", "ann", "on", ">pa:ss", "~ann:*", "+@all");
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, "pa:ss", "ann");
  await page.waitForSelector("#keys");
  await go(page, "#/pad/default");
  await fill(page, "#pad", "ACL WHOAMI\nGET other");
  await click(page, "#run");
  await waitForText(page, '"ann"', "#result");
  await waitForText(page, "NOPERM", "#result");
});

test("it is usable on a phone, in the dark and by keyboard", async (t) => {
  const page = await asOperator(t, { width: 390, height: 800, scheme: "dark" });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(20, 23, 27)");
  await click(page, ".menu");
  await page.waitForSelector("aside.open");
  // The row of views was cut off at the screen's edge.
  assert.ok(await page.$$eval("header nav a", (links) => links.every((link) => link.offsetParent === null)));
  await click(page, "aside .views a[href^='#/connect']");
  await page.waitForSelector(".snippet");
  await page.waitForFunction(() => !document.querySelector("aside.open"));
  await click(page, ".brand");
  await page.waitForSelector("#search");
  await page.focus("#search");
  await page.keyboard.press("Tab");
  const second = await page.evaluate(() => document.activeElement.tagName);
  assert.equal(second, "SELECT");
});
