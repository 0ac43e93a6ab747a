// Search in the console: indexes with what they hold, a search with marked words, how a query is read and what its steps took.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { click, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { redis, startServer } from "../server.js";

let server, browser;

before(async () => {
  [server, browser] = await Promise.all([startServer(), openBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
});

const command = (...words) => redis(server, server.key, ...words);
const go = (page, ...parts) => page.evaluate((hash) => void (location.hash = hash), "#/" + parts.map(encodeURIComponent).join("/"));

async function filled(index) {
  for (let tries = 0; ; tries++) {
    const info = await command("FT.INFO", index);
    if (Number(info[info.indexOf("percent_indexed") + 1]) === 1) return;
    assert.ok(tries < 600, `${info}`);
    await new Promise((resume) => setTimeout(resume, 100));
  }
}

async function asOperator(t) {
  const page = await openPage(browser);
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  t.after(() => page.finish());
  return page;
}

test("indexes are shown with what they hold, and a search in one of them", async (t) => {
  const page = await asOperator(t);
  await go(page, "search", "default");
  await waitForText(page, "There is no index.");
  assert.equal(await command("FT.CREATE", "shoes", "PREFIX", "1", "shoe:", "SCHEMA", "title", "TEXT", "SORTABLE", "price", "NUMERIC"), "OK");
  await command("HSET", "shoe:1", "title", "<b>running</b> shoes", "price", "90");
  await command("HSET", "shoe:2", "title", "sandals", "price", "30");
  await command("HSET", "shoe:3", "title", "boots", "price", "cheap");
  await filled("shoes");
  await press(page, "Refresh");
  await waitForText(page, "shoes", "#indexes");
  const row = await page.$eval("#indexes tbody tr", (row) => [...row.cells].map((cell) => cell.innerText.trim()));
  assert.deepEqual([row[0], row[1], row[2], row[3], row[5], row[6]], ["shoes", "HASH", "shoe:", "2", "filled", "1"]);
  assert.match(row[4], /^\d+(\.\d)? (B|KB)$/);
  await click(page, "#indexes a");
  await waitForText(page, "2 documents", "#index-facts");
  await waitForText(page, "SORTABLE", "#fields");
  await waitForText(page, "shoe:3: ", "#fields");
  // Everything, in an order of one's own.
  await fill(page, "#options", "SORTBY price");
  await click(page, "#run");
  await waitForText(page, "2 found, 2 shown", "#total");
  assert.deepEqual(await page.$$eval("#hits tbody tr td:first-child", (cells) => cells.map((cell) => cell.innerText)), ["shoe:2", "shoe:1"]);
  // A word is marked, and what stands in a document is text.
  await fill(page, "#options", "");
  await fill(page, "#query", "@title:run");
  await click(page, "#run");
  await waitForText(page, "1 found, 1 shown", "#total");
  assert.deepEqual(await page.$$eval("#hits mark", (marks) => marks.map((mark) => mark.innerText)), ["running"]);
  assert.equal(await page.$eval("#hits", (table) => table.querySelector("tbody b")), null);
  await waitForText(page, "<b>running</b> shoes", "#hits");
  const score = await page.$eval("#hits tbody td:nth-child(2)", (cell) => Number(cell.innerText));
  assert.ok(score > 0, `${score}`);
  await press(page, "Explain");
  await waitForText(page, "@title:UNION", "#explained");
  await fill(page, "#query", "@title:run @price:[0 100]");
  await press(page, "Profile");
  await waitForText(page, "INTERSECT", "#profile");
  assert.equal(await page.$$eval("#profile > ul > li > ul > li", (steps) => steps.length), 2);
  await fill(page, "#query", "@title:(");
  await click(page, "#run");
  await waitForText(page, "SEARCH_SYNTAX", ".problem");
});

test("the tree has the indexes", async (t) => {
  await command("FT._CREATEIFNX", "other", "PREFIX", "1", "other:", "SCHEMA", "title", "TEXT");
  const page = await asOperator(t);
  await waitForText(page, "Search", "nav.tree");
  await click(page, 'nav.tree button[aria-label="Open Search"]');
  await waitForText(page, "other", "nav.tree");
  await page.evaluate(() => [...document.querySelectorAll("nav.tree a")].find((link) => link.innerText === "other").click());
  await waitForText(page, "0 documents", "#index-facts");
});

const valueOf = (page, selector) => page.$eval(selector, (field) => field.value);

/** Waits until a field says so: what is chosen is written by the next frame. */
const waitForValue = (page, selector, value) =>
  page.waitForFunction((selector, value) => document.querySelector(selector)?.value === value, {}, selector, value);

test("fields and functions are completed, and an aggregation's rows are shown", async (t) => {
  assert.equal(await command("FT.CREATE", "goods", "PREFIX", "1", "good:", "SCHEMA", "brand", "TAG", "price", "NUMERIC"), "OK");
  await command("HSET", "good:1", "brand", "blue", "price", "1");
  await command("HSET", "good:2", "brand", "blue", "price", "2");
  await command("HSET", "good:3", "brand", "red", "price", "9");
  await filled("goods");
  const page = await asOperator(t);
  await go(page, "search", "default", "goods");
  await waitForText(page, "3 documents", "#index-facts");
  await fill(page, "#query", "@pr");
  await waitForText(page, "@price:[", ".complete");
  await page.focus("#query");
  await page.keyboard.press("Tab");
  await waitForValue(page, "#query", "@price:[");
  await fill(page, "#query", "@bra");
  await waitForText(page, "@brand:{", ".complete");
  await press(page, "@brand:{");
  await waitForValue(page, "#query", "@brand:{");
  await fill(page, "#query", "*");
  await fill(page, "#options", "GROUPBY 1 @brand REDUCE COU");
  await waitForText(page, "COUNT_DISTINCT", ".complete");
  await fill(page, "#options", "APPLY upp");
  await press(page, "upper(");
  await waitForValue(page, "#options", "APPLY upper(");
  await fill(page, "#options", "GROUPBY 1 @brand REDUCE SUM 1 @price AS total APPLY upper(@brand) AS name SORTBY 2 @total DESC");
  assert.match(await valueOf(page, "#options"), /DESC$/);
  await press(page, "Aggregate");
  await waitForText(page, "2 rows");
  assert.deepEqual(await page.$$eval("#rows thead th", (cells) => cells.map((cell) => cell.innerText)), ["brand", "total", "name"]);
  assert.deepEqual(await page.$$eval("#rows tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText))), [
    ["red", "9", "RED"],
    ["blue", "3", "BLUE"],
  ]);
});

const neighbours = (page) => page.$$eval("#neighbours tbody tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));

test("a document's vector has neighbours", async (t) => {
  const vector = "VECTOR FLAT 6 TYPE FLOAT32 DIM 1 DISTANCE_METRIC L2".split(" ");
  assert.equal(await command("FT.CREATE", "near", "PREFIX", "1", "near:", "SCHEMA", "at", ...vector), "OK");
  // The floats 2, 3 and 50, whose bytes are text.
  for (const [name, text] of [["a", "\0\0\0@"], ["b", "\0\0@@"], ["c", "\0\0HB"]]) await command("HSET", `near:${name}`, "at", text);
  await filled("near");
  const page = await asOperator(t);
  await go(page, "search", "default", "near");
  await waitForText(page, "3 documents", "#index-facts");
  await click(page, "#run");
  await waitForText(page, "3 found", "#total");
  await click(page, 'button[aria-label="Neighbours of near:b by at"]');
  await waitForText(page, "near:b", "#neighbours");
  assert.deepEqual(await neighbours(page), [["near:b", "0"], ["near:a", "1"], ["near:c", "2209"]]);
  await click(page, "#neighbours tbody tr:nth-child(2) button");
  await page.waitForFunction(() => document.querySelector("#neighbours td")?.innerText === "near:a");
  assert.deepEqual((await neighbours(page))[2], ["near:c", "2304"]);
});

test("vectors of keys have neighbours", async (t) => {
  await command("VADD", "set", "VALUES", "2", "1", "0", "east", "NOQUANT");
  await command("VADD", "set", "VALUES", "2", "0", "1", "north", "NOQUANT");
  await command("VADD", "set", "VALUES", "2", "-1", "0", "west", "NOQUANT");
  await command("VECTOR.CREATE", "index", "DIM", "2", "METRIC", "EUCLIDEAN");
  await command("VECTOR.ADD", "index", "one", "VALUES", "2", "1", "0");
  await command("VECTOR.ADD", "index", "two", "VALUES", "2", "2", "0");
  const page = await asOperator(t);
  await go(page, "redis", "default", "", "set");
  await waitForText(page, "3 elements");
  await click(page, 'button[aria-label="Neighbours of east"]');
  await waitForText(page, "west", "#neighbours");
  assert.deepEqual(await neighbours(page), [["east", "1"], ["north", "0.5"], ["west", "0"]]);
  await go(page, "redis", "default", "", "index");
  await waitForText(page, "2 vectors of 2 components, EUCLIDEAN");
  await fill(page, "#vector-id", "two");
  await press(page, "Neighbours");
  await waitForText(page, "one", "#neighbours");
  assert.deepEqual(await neighbours(page), [["two", "1"], ["one", "0.5"]]);
  await fill(page, "#vector-id", "none");
  await press(page, "Neighbours");
  await waitForText(page, "there is no such ID", ".problem");
});
