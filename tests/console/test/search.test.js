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
