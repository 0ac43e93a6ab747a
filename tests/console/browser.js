// A browser whose pages may not go wrong: what a script throws, what a policy forbids and what is fetched from elsewhere fails
// the test.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import puppeteer from "puppeteer-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** Long enough for a machine that does much else. */
const PATIENCE_MS = 60_000;

export const openBrowser = () =>
  puppeteer.launch({ executablePath: CHROMIUM, headless: true, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"], protocolTimeout: 120_000 });

/** A page in a profile of its own, with `seen` for what it did wrong and what it loaded. */
export async function openPage(browser, { width = 1200, height = 800, scheme = "light" } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width, height });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  page.setDefaultTimeout(PATIENCE_MS);
  const seen = { wrong: [], requests: [], isUsed: false };
  page.on("pageerror", (error) => seen.wrong.push(`thrown: ${error.stack ?? error}`));
  page.on("console", (message) => {
    // The browser reports a refused request here too. It is no fault of the page, unless nobody has typed or clicked yet.
    const isRefusal = seen.isUsed && /Failed to load resource: the server responded with a status of/.test(message.text());
    if (["error", "warn", "assert"].includes(message.type()) && !isRefusal) seen.wrong.push(`${message.type()}: ${message.text()}`);
  });
  page.on("request", (request) => seen.requests.push(request.url()));
  await page.evaluateOnNewDocument(() => {
    addEventListener("securitypolicyviolation", (event) => console.error(`policy: ${event.violatedDirective} forbids ${event.blockedURI} ${event.sample}`));
  });
  if (process.env.CONSOLE_FROM_DISK) await serveFromDisk(page);
  page.seen = seen;
  page.finish = async () => {
    await context.close();
    assert.deepEqual(seen.wrong, []);
  };
  return page;
}

const KINDS = { js: "text/javascript", css: "text/css" };

/** Gives the page the scripts and styles as they lie in the folder, so that a change needs no build. */
async function serveFromDisk(page) {
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    const name = /\/console\/([\w/]+\.(js|css))$/.exec(new URL(request.url()).pathname);
    if (!name) return request.continue();
    const body = readFileSync(new URL("../../console/" + name[1], import.meta.url));
    return request.respond({ status: 200, contentType: KINDS[name[2]], body });
  });
}

/** Waits until the page holds `text` in an element that fits `selector`. */
export async function waitForText(page, text, selector = "body") {
  try {
    await page.waitForFunction((text, selector) => [...document.querySelectorAll(selector)].some((element) => element.innerText.includes(text)), {}, text, selector);
  } catch (error) {
    const shown = await page.evaluate(() => document.body.innerText);
    throw new Error(`no ${JSON.stringify(text)} in ${selector} (${error.message}) of\n${shown}`);
  }
}

/** Replaces the text of a field. */
export async function fill(page, selector, text) {
  page.seen.isUsed = true;
  const field = await page.waitForSelector(selector);
  await field.focus();
  await field.evaluate((element) => element.select());
  await page.keyboard.press("Backspace");
  await page.keyboard.sendCharacter(text);
}

export async function choose(page, selector, value) {
  await page.waitForSelector(selector);
  await page.select(selector, value);
}

/** Clicks what nothing else covers and what is not disabled, at the moment when it is so. */
export async function click(page, selector) {
  page.seen.isUsed = true;
  await page.waitForFunction(
    (selector) => {
      const element = document.querySelector(selector);
      if (!element || element.disabled) return false;
      element.scrollIntoView({ block: "center" });
      const { x, y, width, height } = element.getBoundingClientRect();
      if (!element.contains(document.elementFromPoint(x + width / 2, y + height / 2))) return false;
      element.focus();
      element.click();
      return true;
    },
    {},
    selector,
  );
}

/** Presses the button that says `text`. */
export async function press(page, text) {
  page.seen.isUsed = true;
  const button = await page.waitForFunction((text) => [...document.querySelectorAll("button, a, summary")].find((element) => element.innerText.trim() === text && !element.disabled), {}, text);
  await button.asElement().evaluate((element) => element.click());
}

export async function logIn(page, server, credential, user) {
  await page.goto(server.url);
  await fill(page, "#credential", credential);
  if (user) await fill(page, "#user", user);
  await page.keyboard.press("Enter");
}

/** Exports all that a grid offers, and answers the lines of the file. What is downloaded is read where it is made. */
export async function exportAll(page) {
  await page.evaluate(() => {
    const { createObjectURL } = URL;
    URL.createObjectURL = (blob) => ((window.saved = blob), createObjectURL.call(URL, blob));
  });
  await click(page, "#export-all");
  const text = await (await page.waitForFunction(() => window.saved?.text())).jsonValue();
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}
