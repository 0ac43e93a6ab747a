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
  // The tree says "another credential" too, so the link is waited for.
  await press(page, "other");
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
  await fill(page, "#options", "WITHCURSOR COUNT 2 LOAD 1 @price");
  await press(page, "Aggregate");
  await waitForText(page, "2 rows");
  assert.deepEqual(await page.$$eval("#rows thead th", (cells) => cells.map((cell) => cell.innerText)), ["price"]);
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

const cells = (page, table) => page.$$eval(`#${table} tbody tr`, (rows) => rows.map((row) => [...row.cells].map((cell) => cell.innerText)));

for (const type of ["FLOAT32", "FLOAT64", "FLOAT16", "BFLOAT16", "INT8", "UINT8"]) {
  test(`a JSON document's vector of ${type} has neighbours`, async (t) => {
    const vector = ["$.in.v", "VECTOR", "HNSW", "6", "TYPE", type, "DIM", "2", "DISTANCE_METRIC", "L2"];
    assert.equal(await command("FT.CREATE", type, "ON", "JSON", "PREFIX", "1", `${type}:`, "SCHEMA", "$.t", "AS", "t", "TEXT", ...vector), "OK");
    for (const [name, x] of [["a", 2], ["b", 3], ["c", 6]]) await command("JSON.SET", `${type}:${name}`, "$", JSON.stringify({ t: `number ${x}`, in: { v: [x, 1] } }));
    await command("JSON.SET", `${type}:none`, "$", JSON.stringify({ t: "no vector" }));
    await filled(type);
    const page = await asOperator(t);
    await go(page, "search", "default", type);
    await waitForText(page, "documents", "#index-facts");
    await fill(page, "#query", "number");
    await click(page, "#run");
    await waitForText(page, "3 found", "#total");
    assert.deepEqual(await page.$$eval("#hits thead th", (heads) => heads.map((head) => head.innerText)), ["key", "score", "", "t"]);
    assert.deepEqual(await page.$$eval("#hits mark", (marks) => marks.map((mark) => mark.innerText)), ["number", "number", "number"]);
    await click(page, `button[aria-label="Neighbours of ${type}:b by $.in.v"]`);
    await waitForText(page, `${type}:c`, "#neighbours");
    assert.deepEqual(await neighbours(page), [[`${type}:b`, "0"], [`${type}:a`, "1"], [`${type}:c`, "9"]]);
    await fill(page, "#query", "vector");
    await click(page, "#run");
    await waitForText(page, "1 found", "#total");
    await click(page, `button[aria-label="Neighbours of ${type}:none by $.in.v"]`);
    await waitForText(page, "has no vector at", ".problem");
  });
}

test("vectors that are long have neighbours, and are shown as numbers", async (t) => {
  const dimensions = 32_768;
  assert.equal(await command("FT.CREATE", "long", "PREFIX", "1", "long:", "SCHEMA", "v", "VECTOR", "FLAT", "6", "TYPE", "FLOAT32", "DIM", String(dimensions), "DISTANCE_METRIC", "L2"), "OK");
  for (const [name, first] of [["a", 1], ["b", 3]]) {
    const body = new Uint8Array(Float32Array.from({ length: dimensions }, (_, place) => (place === 0 ? first : -0.25)).buffer);
    const answer = await fetch(new URL(`/HSET/long:${name}/v`, server.url), { method: "POST", headers: { authorization: `Bearer ${server.key}` }, body });
    assert.deepEqual(await answer.json(), { result: 1 });
  }
  await filled("long");
  const page = await asOperator(t);
  await go(page, "search", "default", "long");
  await waitForText(page, "2 documents", "#index-facts");
  await click(page, "#run");
  await waitForText(page, "2 found", "#total");
  assert.deepEqual((await cells(page, "hits")).map((row) => row[3]), ["1, -0.25, -0.25, … (32,768)", "3, -0.25, -0.25, … (32,768)"]);
  await click(page, 'button[aria-label="Neighbours of long:a by v"]');
  await waitForText(page, "long:b", "#neighbours");
  assert.deepEqual(await neighbours(page), [["long:a", "0"], ["long:b", "4"]]);
});

test("filling is followed until it ends, with the time that it takes yet", async (t) => {
  assert.equal(await command("FT.CREATE", "slow", "PREFIX", "1", "slow:", "SCHEMA", "t", "TEXT"), "OK");
  await filled("slow");
  const page = await asOperator(t);
  // What FT.INFO says of the progress, as a large index has it.
  await page.evaluate(() => {
    const { fetch } = window;
    window.share = "0.25";
    window.fetch = async (...given) => {
      const answer = await fetch(...given);
      if (!String(given[0]).includes("/redis/")) return answer;
      const text = await answer.text();
      const put = text.replace(`"${btoa("percent_indexed")}","${btoa("1")}"`, () => `"${btoa("percent_indexed")}","${btoa(window.share)}"`);
      return new Response(put, { status: answer.status, headers: answer.headers });
    };
  });
  await go(page, "search", "default", "slow");
  await waitForText(page, "25.0 %", "#index-facts");
  await fill(page, "#query", "typed meanwhile");
  await page.evaluate(() => void (window.share = "0.5"));
  await waitForText(page, "50.0 %, about", "#index-facts");
  assert.match(await page.$eval("#index-facts", (facts) => facts.innerText), /about \d+ (s|min|h) left/);
  assert.equal(await page.$eval("#index-facts progress", (bar) => bar.value), 0.5);
  await page.evaluate(() => void (window.share = "1"));
  await waitForText(page, "filled", "#index-facts");
  assert.equal(await valueOf(page, "#query"), "typed meanwhile");
});

test("scores are explained, and sort keys and payloads are in no field's way", async (t) => {
  assert.equal(await command("FT.CREATE", "why", "PREFIX", "1", "why:", "SCHEMA", "t", "TEXT", "SORTABLE"), "OK");
  await command("HSET", "why:1", "t", "fox");
  await filled("why");
  const page = await asOperator(t);
  await go(page, "search", "default", "why");
  await fill(page, "#query", "fox");
  await fill(page, "#options", "EXPLAINSCORE WITHPAYLOADS WITHSORTKEYS SORTBY t");
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
  await waitForText(page, "why", "#hits summary");
  assert.deepEqual(await page.$$eval("#hits thead th", (heads) => heads.map((head) => head.innerText)), ["key", "score", "t"]);
  await fill(page, "#options", "NOCONTENT EXPLAINSCORE");
  await click(page, "#run");
  await page.waitForFunction(() => document.querySelectorAll("#hits thead th").length === 2);
  assert.equal((await cells(page, "hits"))[0][0], "why:1");
});

const MARKUP = `<img src=x onerror="document.title='taken'"><script>document.title='taken'</script>`;

test("names and values that are markup stay text", async (t) => {
  assert.equal(await command("FT.CREATE", MARKUP, "PREFIX", "1", MARKUP, "SCHEMA", MARKUP, "AS", MARKUP, "TEXT", "n", "NUMERIC"), "OK");
  await command("HSET", MARKUP + "1", MARKUP, `fox ${MARKUP}`, `b${MARKUP}`, MARKUP, "n", "1");
  await command("HSET", MARKUP + "2", "n", MARKUP);
  await filled(MARKUP);
  const page = await asOperator(t);
  await click(page, 'nav.tree button[aria-label="Open Search"]');
  await waitForText(page, MARKUP, "nav.tree");
  await go(page, "search", "default");
  await waitForText(page, MARKUP, "#indexes");
  await go(page, "search", "default", MARKUP);
  await waitForText(page, "1 documents", "#index-facts");
  await waitForText(page, MARKUP, "#fields");
  await fill(page, "#query", "@");
  await waitForText(page, "@\\<img", ".complete");
  await fill(page, "#query", "fox");
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
  await waitForText(page, MARKUP, "#hits");
  await press(page, "Explain");
  await waitForText(page, "fox", "#explained");
  await fill(page, "#options", "GROUPBY 1 @n REDUCE TOLIST 1 @n");
  await press(page, "Aggregate");
  await waitForText(page, "1 rows");
  await fill(page, "#query", MARKUP + "(");
  await click(page, "#run");
  await waitForText(page, "SEARCH_", ".problem");
  assert.equal(await page.$("#view img"), null);
  assert.match(await page.title(), / · Quartet$/);
});

test("huge documents are shown in part, from the word that was found", async (t) => {
  assert.equal(await command("FT.CREATE", "huge", "PREFIX", "1", "huge:", "SCHEMA", "t", "TEXT"), "OK");
  const fields = Array.from({ length: 500 }, (_, place) => [`f${place}`, "x"]).flat();
  await command("HSET", "huge:1", "t", "a ".repeat(250_000) + "needle" + " b".repeat(250_000), ...fields);
  await filled("huge");
  const page = await asOperator(t);
  await go(page, "search", "default", "huge");
  await fill(page, "#query", "needle");
  await click(page, "#run");
  await waitForText(page, "1 found, 1 shown, without 461 more fields", "#total");
  assert.deepEqual(await page.$$eval("#hits mark", (marks) => marks.map((mark) => mark.innerText)), ["needle"]);
  assert.ok((await page.$eval("#hits", (table) => table.textContent.length)) < 10_000);
});

test("an index that is dropped while somebody looks says so", async (t) => {
  assert.equal(await command("FT.CREATE", "gone", "PREFIX", "1", "gone:", "SCHEMA", "t", "TEXT"), "OK");
  const page = await asOperator(t);
  await go(page, "search", "default", "gone");
  await waitForText(page, "0 documents", "#index-facts");
  assert.equal(await command("FT.DROPINDEX", "gone"), "OK");
  await click(page, "#run");
  await waitForText(page, "gone", ".problem");
  await press(page, "Refresh");
  await page.waitForFunction(() => document.querySelector("#index-facts") === null);
  await waitForText(page, "gone", "#view > section > .problem");
});

test("a user sees the indexes that its rights cover, and why not the others", async (t) => {
  assert.equal(await command("FT.CREATE", "open", "PREFIX", "1", "ann:", "SCHEMA", "t", "TEXT"), "OK");
  assert.equal(await command("FT.CREATE", "secret", "PREFIX", "1", "secret:", "SCHEMA", "t", "TEXT"), "OK");
  await command("HSET", "ann:1", "t", "mine");
  await command("ACL", "SETUSER", "ann", "on", ">pa:ss", "~ann:*", "+@all");
  await command("ACL", "SETUSER", "bob", "on", ">wo:rd", "~*", "+@all", "-@search");
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, "pa:ss", "ann");
  await page.waitForSelector("#keys");
  await go(page, "search", "default");
  await waitForText(page, "open", "#indexes");
  for (const row of await cells(page, "indexes")) assert.equal(row[0] === "open", !/NOPERM/.test(row[1]), `${row}`);
  await go(page, "search", "default", "secret");
  await waitForText(page, "NOPERM", ".problem");
  await go(page, "search", "default", "open");
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
  const other = await openPage(browser);
  t.after(() => other.finish());
  await logIn(other, server, "wo:rd", "bob");
  await other.waitForSelector("#keys");
  await go(other, "search", "default");
  await waitForText(other, "NOPERM", ".problem");
});

test("a search that takes too long ends with the server's word, and the next goes on", async (t) => {
  assert.equal(await command("FT.CREATE", "wide", "PREFIX", "1", "wide:", "SCHEMA", "t", "TEXT"), "OK");
  const fill20000 = "for place = 1, 20000 do redis.call('HSET', 'wide:' .. place, 't', 'word' .. place) end";
  await command("EVAL", fill20000, "0");
  await filled("wide");
  const page = await asOperator(t);
  await go(page, "search", "default", "wide");
  await waitForText(page, "20,000 documents", "#index-facts");
  await fill(page, "#options", "SORTBY t TIMEOUT 1");
  await click(page, "#run");
  await waitForText(page, "imeout", ".problem");
  await fill(page, "#options", "");
  await fill(page, "#query", "word7");
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
});

test("the search page is usable on a phone, in the dark", async (t) => {
  assert.equal(await command("FT.CREATE", "phone", "PREFIX", "1", "phone:", "SCHEMA", "title", "TEXT", "v", "VECTOR", "FLAT", "6", "TYPE", "FLOAT32", "DIM", "1", "DISTANCE_METRIC", "L2"), "OK");
  await command("HSET", "phone:" + "k".repeat(300), "title", "word ".repeat(300), "v", "\0\0\0@");
  await filled("phone");
  const page = await openPage(browser, { width: 390, height: 800, scheme: "dark" });
  t.after(() => page.finish());
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  for (const parts of [["search", "default"], ["search", "default", "phone"]]) {
    await go(page, ...parts);
    await waitForText(page, "phone", "#view");
  }
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
  await press(page, "Neighbours by v");
  await page.waitForSelector("#neighbours");
  await press(page, "Profile");
  await page.waitForSelector("#profile");
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
});

test("an index of redis.search is a key that is searched", async (t) => {
  const schema = ["name", "TEXT", "brand", "KEYWORD", "price", "F64", "FAST"];
  assert.equal(await command("SEARCH.CREATE", "typed", "ON", "JSON", "PREFIX", "1", "typed:", "SCHEMA", ...schema), 1);
  await command("JSON.SET", "typed:1", "$", JSON.stringify({ name: "<b>running</b> shoes", brand: "blue", price: 90 }));
  await command("JSON.SET", "typed:2", "$", JSON.stringify({ name: "sandals", brand: "red", price: 30 }));
  const page = await asOperator(t);
  await go(page, "search", "default");
  await waitForText(page, "typed", "#key-indexes");
  assert.deepEqual((await cells(page, "key-indexes"))[0].slice(0, 4), ["typed", "JSON", "typed:", "2"]);
  await click(page, "#key-indexes a");
  await waitForText(page, "2 documents", "#index-facts");
  await fill(page, "#query", '{"na');
  await press(page, '"name"');
  await waitForValue(page, "#query", '{"name"');
  await fill(page, "#query", '{"name": "runing"}');
  await click(page, "#run");
  await waitForText(page, "1 found, 1 shown", "#total");
  await waitForText(page, "<b>running</b> shoes", "#hits");
  assert.deepEqual(await page.$$eval("#hits thead th", (heads) => heads.map((head) => head.innerText)), ["key", "score", "name", "brand", "price"]);
  await fill(page, "#query", "{}");
  await fill(page, "#options", "ORDERBY price ASC SELECT 1 price");
  await click(page, "#run");
  await waitForText(page, "2 found", "#total");
  assert.deepEqual((await cells(page, "hits")).map((row) => [row[0], row[2]]), [["typed:2", "30"], ["typed:1", "90"]]);
  await fill(page, "#aggregations", '{"most": {"$max": {"field": "price"}}}');
  await click(page, "#aggregate");
  await waitForText(page, "90", "#figures");
  await fill(page, "#query", "{");
  await click(page, "#run");
  await waitForText(page, "ERR", ".problem");
  await command("DEL", "typed");
  await fill(page, "#query", "{}");
  await click(page, "#run");
  await waitForText(page, "there is no such index", ".problem");
});

test("entries of a stream that are found lead to the stream", async (t) => {
  assert.equal(await command("SEARCH.CREATE", "log", "ON", "STREAM", "events", "SCHEMA", "message", "TEXT"), 1);
  await command("XADD", "events", "1-1", "message", "door opened");
  const page = await asOperator(t);
  await go(page, "redis", "default", "", "log");
  await waitForText(page, "1 documents", "#index-facts");
  await click(page, "#run");
  await waitForText(page, "1 found", "#total");
  await click(page, "#hits a");
  await waitForText(page, "events", "#key-name");
});
