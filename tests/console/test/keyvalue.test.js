// The key-value layer in the console: directories in the tree, a grid of rows that is read page by page, editing, and who may not.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { click, exportAll, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { asTuple, behind, concat, fromPrintable, packBytes, printable, toBase64 } from "../../../console/tuples.js";
import { admin, startServer } from "../server.js";

let server, browser;

before(async () => {
  [server, browser] = await Promise.all([startServer(), openBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const bytes = (text) => new TextEncoder().encode(text);
const string = (text) => concat([2], bytes(text), [0]);

/** A session of the console without a browser. */
async function session(credential) {
  const ask = (path, headers, body) => fetch(new URL("/console/api/" + path, server.url), { method: body ? "POST" : "GET", headers, body });
  const opened = await ask("login", {}, JSON.stringify({ credential }));
  assert.equal(opened.status, 200);
  const headers = { cookie: opened.headers.get("set-cookie").split(";")[0], "x-quartet-proof": (await opened.json()).proof };
  const keyvalue = async (database, asked) => {
    const answer = await ask(`keyvalue/${database}/`, headers, JSON.stringify(asked));
    return { status: answer.status, ...(await answer.json()) };
  };
  const databases = async () => (await (await ask("session", headers)).json()).databases;
  /** The first line of a change feed, or its refusal. */
  const changes = async (path) => {
    const stop = new AbortController();
    const answer = await fetch(new URL("/console/api/changes/" + path, server.url), { headers, signal: stop.signal });
    const { value } = await answer.body.getReader().read();
    stop.abort();
    return { status: answer.status, text: Buffer.from(value).toString() };
  };
  return { keyvalue, databases, changes };
}

const set = (key, value) => ({ set: [toBase64(key), toBase64(value)] });
const range = (begin, end, rows) => ({ read: { begin: toBase64(begin), end: toBase64(end), rows } });

const NODES = Uint8Array.of(0xfe);
/** What the directory layer writes for a directory in another: the root's node is named by the nodes' own place. */
const directory = (node, name, prefix) => set(concat(NODES, packBytes(node), [0x14], string(name)), prefix);

async function asOperator(t) {
  const page = await openPage(browser);
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  t.after(() => page.finish());
  return page;
}

const go = (page, ...parts) => page.evaluate((hash) => void (location.hash = hash), "#/" + parts.map(encodeURIComponent).join("/"));

test("directories are in the tree, and their rows in a grid that is read page by page", async (t) => {
  const { keyvalue } = await session(server.key);
  const [app, users] = [Uint8Array.of(0x15, 0x01), Uint8Array.of(0x15, 0x00)];
  const rows = Array.from({ length: 130 }, (_, index) => set(concat(users, [0x15], [index + 1]), bytes(`value ${index + 1}`)));
  const written = await keyvalue("default", { write: [directory(NODES, "app", app), directory(app, "<users>", users), ...rows] });
  assert.equal(written.status, 200);
  assert.ok(written.version > 0);
  const page = await asOperator(t);
  await go(page, "keyvalue", "default");
  await waitForText(page, "app", "nav.tree");
  await click(page, 'button[aria-label="Open app"]');
  await waitForText(page, "<users>", "nav.tree");
  await page.evaluate(() => [...document.querySelectorAll("nav.tree a")].find((link) => link.innerText === "<users>").click());
  await waitForText(page, "100 shown, more to come", "#shown-count");
  await waitForText(page, "(17)", "#rows");
  await waitForText(page, "value 17", "#rows");
  await click(page, "#more");
  await waitForText(page, "130 shown", "#shown-count");
  await fill(page, "#search", "\\x15\\x11");
  await press(page, "Read");
  await waitForText(page, "1 shown", "#shown-count");
});

test("a row is made, changed and deleted, and all rows after they were counted", async (t) => {
  const { keyvalue } = await session(server.key);
  const page = await asOperator(t);
  await go(page, "keyvalue", "default", "7a2f", "new");
  await fill(page, "#row-key", "z/<script>\\xff");
  await fill(page, "#row-value", "a \\x00 b");
  await click(page, "#save");
  await waitForText(page, "z/<script>\\xff", "p#row-key");
  const [begin, end] = [bytes("z/"), behind(bytes("z/"))];
  const stored = async () => (await keyvalue("default", range(begin, end, 1000))).rows.map(([, value]) => Buffer.from(value, "base64").toString("latin1"));
  assert.deepEqual(await stored(), ["a \0 b"]);
  await fill(page, "#row-value", "other");
  const written = page.waitForResponse((response) => response.request().postData()?.includes('"write"'));
  await click(page, "#save");
  await written;
  assert.deepEqual(await stored(), ["other"]);
  await fill(page, "#row-value", "\\q");
  await click(page, "#save");
  await waitForText(page, "is no escape", ".problem");
  await keyvalue("default", { write: [set(bytes("z/2"), bytes("2")), set(bytes("z/3"), bytes("3"))] });
  await go(page, "keyvalue", "default", "7a2f");
  await press(page, "Read");
  await waitForText(page, "3 shown", "#shown-count");
  await click(page, "#delete-matching");
  await waitForText(page, "Delete all 3 keys?", "dialog");
  await fill(page, "dialog input", "3");
  await click(page, "#confirm");
  await waitForText(page, "0 shown", "#shown-count");
  assert.deepEqual(await stored(), []);
});

test("the pad speaks the shell's language, and shows the same as code", async (t) => {
  const { keyvalue } = await session(server.key);
  const page = await asOperator(t);
  await go(page, "pad", "default", "Key-value");
  await page.waitForSelector('[data-name="Key-value"][aria-selected=true]');
  const run = async (text) => {
    await fill(page, "#pad", text);
    await click(page, "#run");
    await page.waitForFunction(() => !document.querySelector("#run").disabled);
    return page.evaluate(() => (document.querySelector("#result") ?? document.querySelector(".problem")).innerText);
  };
  const result = await run('set pad/\\x00 "a b"; set pad/2 two\nbegin; clear pad/2; set pad/3 three; commit\nget pad/2\ngetrange pad/');
  assert.deepEqual(result.split("\n").slice(3), ["`pad/2': not found", "`pad/\\x00' is `a b'", "`pad/3' is `three'"]);
  assert.match(result, /^(Committed \(\d+\)\n){3}/);
  assert.match(await run("get pad/2\nget"), /^line 2: it is written get KEY/);
  assert.equal(await run("getrangekeys pad/ 1"), "`pad/\\x00'\nand more");
  assert.equal(await run("clearrange pad/ pad0; getrange pad/"), (await page.$eval("#result", (element) => element.innerText)));
  assert.deepEqual((await keyvalue("default", range(bytes("pad/"), bytes("pad0"), 10))).rows, []);
  for (const [wrong, why] of [["drop x", "there is no command drop"], ["get", "it is written get KEY"], ['get "x', "a quotation mark is not closed"], ["get \\q", "is no escape"], ["begin; set a b", "the transaction is not committed"]]) {
    assert.match(await run(wrong), new RegExp(why), wrong);
  }
  await fill(page, "#pad", 'begin; set "<b>" \\xff; clearrange a b; commit; getrange "" \\xff 5');
  await page.$eval("details:has(#code) summary", (summary) => summary.click());
  for (const [language, expected] of [["Python", 'tr[b"<b>"] = b"\\xff"'], ["JavaScript", 'tn.clearRange(Buffer.from("a", "latin1"), Buffer.from("b", "latin1"))'], ["Go", 'tr.Set(fdb.Key("<b>"), []byte("\\xff"))'], ["Java", "tr.getRange(new byte[] {}, new byte[] {-1}, 5)"]]) {
    await page.$eval(`[data-name="${language}"]`, (tab) => tab.click());
    await waitForText(page, expected, "#code");
  }
});

test("rows are told as they change, and only those that were asked for", async (t) => {
  const { keyvalue } = await session(server.key);
  const page = await asOperator(t);
  await go(page, "tail", "default", "keyvalue", "live/");
  await page.waitForSelector('[data-name="Key-value"][aria-selected=true]');
  await waitForText(page, "listening", "#view");
  // The feed may begin a little after the page says so.
  for (let index = 0; !(await page.$("#events td")); index++) {
    await keyvalue("default", { write: [set(bytes("else/<i>"), bytes("no")), set(bytes(`live/${index}`), bytes("<b>"))] });
  }
  await keyvalue("default", { write: [{ clear_range: [toBase64(bytes("a")), toBase64(bytes("m"))] }] });
  await waitForText(page, "clearrange a m", "#events");
  const told = await page.$$eval("#events .event", (events) => events.map((event) => event.innerText));
  assert.match(told.at(-1), /^set live\/\d+ <b>$/);
  assert.ok(told.every((line) => !line.includes("else/")), `${told}`);
});

test("a row is looked at as it was, by keyboard", async (t) => {
  const { keyvalue } = await session(server.key);
  for (const value of ["first", "second"]) await keyvalue("default", { write: [set(bytes("was/1"), bytes(value)), set(bytes("was/10"), bytes("another"))] });
  await keyvalue("default", { write: [{ clear_range: [toBase64(bytes("w")), toBase64(bytes("x"))] }] });
  await keyvalue("default", { write: [set(bytes("was/1"), bytes("third"))] });
  const page = await asOperator(t);
  await go(page, "keyvalue", "default", "", Buffer.from("was/1").toString("hex"));
  await (await page.waitForSelector("details.as-of summary")).focus();
  await page.keyboard.press("Enter");
  await waitForText(page, "4 of 4", "details.as-of");
  await (await page.waitForSelector("#moment")).focus();
  const seen = [];
  for (let step = 0; step < 4; step++) {
    seen.push(await page.$eval("#moment-text", (element) => element.innerText));
    await page.keyboard.press("ArrowLeft");
    await waitForText(page, `${Math.max(1, 3 - step)} of 4`, "details.as-of");
  }
  assert.deepEqual(seen, ["third", "(cleared)", "second", "first"]);
});

test("all rows of a range are exported, however many there are", async (t) => {
  const { keyvalue } = await session(server.key);
  for (let from = 0; from < 2500; from += 500) {
    await keyvalue("default", { write: Array.from({ length: 500 }, (_, index) => set(bytes(`export/${String(from + index).padStart(5, "0")}`), bytes("v"))) });
  }
  const page = await asOperator(t);
  await go(page, "keyvalue", "default", Buffer.from("export/").toString("hex"));
  await waitForText(page, "100 shown, more to come", "#shown-count");
  const rows = await exportAll(page);
  assert.deepEqual([rows.length, rows[0], rows.at(-1).key], [2500, { key: "export/00000", value: "v" }, "export/02499"]);
});

test("a database's token opens its rows alone, a read-only one may not write, and quotas hold", async () => {
  const { credentials } = await admin(server, "POST", "databases", { name: "rows", quotas: { request_bytes: 500 } });
  const [own, looker] = [await session(credentials.token), await session(credentials.read_only_token)];
  assert.deepEqual((await own.databases()).map(({ name, keyvalue }) => [name, keyvalue]), [["rows", true]]);
  assert.equal((await own.keyvalue("rows", { write: [set(bytes("k"), bytes("v"))] })).status, 200);
  assert.equal((await own.keyvalue("default", range(bytes(""), bytes("z"), 1))).status, 403);
  assert.deepEqual((await looker.keyvalue("rows", range(bytes(""), bytes("z"), 1))).rows, [[toBase64(bytes("k")), toBase64(bytes("v"))]]);
  assert.equal((await own.changes("default?layer=keyvalue")).status, 403);
  for (const path of ["rows?from=0", "rows?from=0&database=default"]) {
    const { status, text } = await own.changes(path);
    assert.deepEqual([status, /"version"/.test(text)], [200, true], path);
    assert.doesNotMatch(text, /"database":"default"/);
  }
  assert.equal((await looker.keyvalue("rows", { write: [{ clear: toBase64(bytes("k")) }] })).status, 403);
  const large = await own.keyvalue("rows", { write: [set(bytes("k"), bytes("v".repeat(500)))] });
  assert.deepEqual([large.status, /max request size exceeded/.test(large.error)], [429, true]);
});

test("what is no request is refused, and a page has an end however many rows are asked for", async () => {
  const { keyvalue } = await session(server.key);
  assert.equal((await keyvalue("default", { read: { begin: "%", end: "", rows: 1 } })).status, 400);
  assert.equal((await keyvalue("default", { read: { begin: "", end: "" } })).status, 400);
  assert.equal((await keyvalue("default", { write: [set(Uint8Array.of(0xff, 1), bytes("system"))] })).status, 400);
  const rows = Array.from({ length: 1001 }, (_, index) => set(bytes(`many/${String(index).padStart(4, "0")}`), bytes("v")));
  assert.equal((await keyvalue("default", { write: rows })).status, 200);
  const page = await keyvalue("default", range(bytes("many/"), bytes("many0"), 4_000_000_000));
  assert.deepEqual([page.rows.length, page.more], [1000, true]);
});

test("keys are printed and read back, and tuples are taken apart", () => {
  const all = Uint8Array.from({ length: 256 }, (_, byte) => byte);
  assert.deepEqual(fromPrintable(printable(all)), all);
  assert.equal(printable(fromPrintable("é")), "\\xc3\\xa9");
  // Of "design/tuple.md", and what FoundationDB's bindings print for them.
  for (const [packed, shown] of [
    ["024600ff4f00", '("F\\u0000O")'],
    ["014600ff4f00", '(b"F\\x00O")'],
    ["14", "(0)"],
    ["152a", "(42)"],
    ["13d5", "(-42)"],
    ["12fffe", "(-1)"],
    ["21c045000000000000", "(42)"],
    ["213fbaffffffffffff", "(-42)"],
    ["002726", "(null, true, false)"],
    ["1c7fffffffffffffff", "(9223372036854775807)"],
    ["0c8000000000000000", "(-9223372036854775807)"],
  ]) {
    assert.equal(asTuple(Uint8Array.from(packed.match(/../g), (pair) => parseInt(pair, 16))), shown, packed);
  }
  for (const none of [[0xff], [2, 0xff, 0], [2, 65], [0x15], [0x21, 1], []]) assert.equal(asTuple(Uint8Array.from(none)), null);
});
