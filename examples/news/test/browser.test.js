// The page as a person uses it, in a browser: every driver, warm and cold, histograms that grow. What its script throws, and what
// its policy forbids, fails the test.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { ARTICLES, articles, SECTIONS } from "../articles.js";
import { start } from "../server.js";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const PATIENCE = { timeout: 60_000 };
let news, browser, page;
const wrong = [];

before(async () => {
  news = await start();
  browser = await puppeteer.launch({ executablePath: CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], protocolTimeout: 120_000 });
  page = await browser.newPage();
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  await page.goto(news.url);
});

after(async () => {
  await browser?.close();
  await news?.stop();
});

test("the archive is that of the publication", () => {
  const all = articles();
  assert.equal(all.length, ARTICLES);
  assert.deepEqual(new Set(all.map((article) => article.section)), new Set(SECTIONS));
});

for (const driver of ["ioredis", "@upstash/redis", "AWS SDK", "faunadb"]) {
  test(`${driver} shows the ten most viewed, best first, and its histogram grows`, async () => {
    await page.select("#driver", driver);
    const counted = await count(driver, "warm");
    await page.click("#choice [type=submit]");
    await grown(driver, "warm", counted);
    const views = await page.$$eval("#articles li span", (spans) => spans.map((span) => parseInt(span.textContent)));
    assert.equal(views.length, 10);
    assert.deepEqual(views, [...views].sort((a, b) => b - a));
  });

  test(`${driver} does the same with a connection for each request`, async () => {
    await page.select("#driver", driver);
    await page.click("#cold");
    await page.click("#choice [type=submit]");
    await grown(driver, "cold", 0);
    await page.click("#cold");
  });
}

test("a hundred requests at once are a hundred more in the histogram", async () => {
  await page.select("#driver", "ioredis");
  const counted = await count("ioredis", "warm");
  await page.click("#many");
  await grown("ioredis", "warm", counted + 99);
  const bars = await page.$$eval('figure[data-driver="ioredis"][data-kind="warm"] rect', (rects) => rects.length);
  assert.equal(bars, 50);
});

test("the published figures stand beside them, with where they were measured", async () => {
  const text = await page.$eval("main", (main) => main.innerText);
  for (const expected of ["about 50 ms", "about 200 ms", "about 900 ms", "Published in 2021, not measured here"]) assert.ok(text.includes(expected), expected);
});

test("what is no driver is refused", async () => {
  const refused = await fetch(`${news.url}api/top?driver=constructor&section=World`, { method: "POST" });
  assert.equal(refused.status, 400);
  assert.equal((await fetch(`${news.url}api/run?driver=ioredis&section=World&count=100000`, { method: "POST" })).status, 400);
});

test("nothing went wrong on the page", () => assert.deepEqual(wrong, []));

const caption = (driver, kind) => `figure[data-driver="${driver}"][data-kind="${kind}"] figcaption`;

/** How many requests the page shows. */
async function count(driver, kind) {
  const shown = await page.$(caption(driver, kind));
  return shown ? Number(/(\d+) requests/.exec(await shown.evaluate((element) => element.textContent))[1]) : 0;
}

async function grown(driver, kind, before) {
  const isGrown = (selector, before) => Number(/(\d+) requests/.exec(document.querySelector(selector)?.textContent ?? "")?.[1] ?? 0) > before;
  await page.waitForFunction(isGrown, PATIENCE, caption(driver, kind), before);
}
