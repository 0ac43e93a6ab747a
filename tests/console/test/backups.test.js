// Backups in the console: of the server, with progress and into a new folder, and of DynamoDB's tables; and who may not.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { choose, click, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { admin, redis, startServer } from "../server.js";

/** Where pictures for the documents go; none are made otherwise. */
const PICTURES = process.env.CONSOLE_PICTURES && new URL(`../../../${process.env.CONSOLE_PICTURES}`, import.meta.url).pathname;
let server, browser, folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "quartet-console-backups-"));
  const options = ["--backup-targets", `nightly=${join(folder, "nightly")}`, "--restore-folder", join(folder, "restored")];
  [server, browser] = await Promise.all([startServer(...options), openBrowser()]);
});
after(async () => {
  await browser?.close();
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

const go = (page, ...parts) => page.evaluate((hash) => void (location.hash = hash), "#/" + parts.map(encodeURIComponent).join("/"));

async function asOperator(t) {
  const page = await openPage(browser);
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  t.after(() => page.finish());
  return page;
}

const moveTo = (page, selector, value) =>
  page.$eval(
    selector,
    (slider, value) => {
      slider.value = value;
      slider.dispatchEvent(new Event("input", { bubbles: true }));
    },
    value,
  );

/** Starts a server on a restored folder, gives `look` its URL of REST and root key, and ends it. */
async function onRestored(data, look) {
  const { QUARTET_BIN } = process.env;
  const binary = QUARTET_BIN ?? new URL("../../../target/release/quartet", import.meta.url).pathname;
  const listeners = ["redis", "dynamodb", "fauna", "keyvalue"].flatMap((name) => [`--listen-${name}`, "off"]);
  const child = spawn(binary, ["serve", "--data", data, "--root-key", "k".repeat(32), "--listen-http", "127.0.0.1:0", ...listeners], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    let told = "";
    for await (const piece of child.stdout) {
      told += piece;
      if (/^ready/m.test(told)) break;
    }
    return await look({ url: /^console\s+(\S+)/m.exec(told)[1], key: "k".repeat(32) });
  } finally {
    child.kill("SIGKILL");
  }
}

test("several partitions are shown, backed up and restored together", async (t) => {
  const places = await mkdtemp(join(tmpdir(), "quartet-console-partitions-"));
  const options = ["--dev", "--partitions", "2", "--backup-targets", `all=${join(places, "all")}`, "--restore-folder", places];
  const several = await startServer(...options);
  const page = await openPage(browser);
  t.after(async () => {
    await page.finish().finally(() => several.close());
    await rm(places, { recursive: true, force: true });
  });
  await page.goto(several.url);
  await page.waitForSelector("#keys");
  await go(page, "databases");
  await waitForText(page, "default", "#partitions");
  assert.equal(await page.$$eval("#partitions tbody tr", (rows) => rows.length), 2);
  await go(page, "backups", "default");
  await click(page, "#take-all");
  await waitForText(page, "all rows and the log", "#task");
  await page.waitForFunction(() => document.querySelectorAll("#chains-all tbody tr").length === 2);
  assert.deepEqual(await page.$$eval("#chains-all tbody td:first-child", (cells) => cells.map((cell) => cell.textContent)), ["0", "1"]);
  await click(page, "#chains-all tbody tr:last-child button:enabled");
  await fill(page, "#restore-into", "again");
  await click(page, "#restore");
  await waitForText(page, "quartet serve --data", "#task");
  assert.deepEqual(await readdir(join(places, "again", "partitions")), ["1"]);
});

test("a backup is taken, verified and restored into a new folder, as of a moment", async (t) => {
  const { credentials } = await admin(server, "POST", "databases", { name: "shop" });
  await redis(server, credentials.token, "SET", "price", "1");
  const page = await asOperator(t);
  await go(page, "backups", "default");
  await waitForText(page, "No backup yet.", "#view");
  // While a task runs no other is offered, nor before it is seen that it runs.
  await page.evaluate(() => {
    const button = document.querySelector("#take-nightly");
    window.offered = [];
    new MutationObserver(() => button.disabled || window.offered.push(Boolean(document.querySelector("#task .good")))).observe(button, { attributes: true });
  });
  await click(page, "#take-nightly");
  await waitForText(page, "all rows and the log", "#task");
  await page.waitForSelector("#take-nightly:enabled");
  assert.deepEqual(await page.evaluate(() => window.offered), [true]);
  await page.waitForFunction(() => document.querySelectorAll("#chains-nightly tbody tr").length === 1);
  await redis(server, credentials.token, "SET", "price", "2");
  await click(page, "#take-nightly");
  await waitForText(page, "2", "#chains-nightly td.optional");
  await click(page, "#verify-nightly");
  await waitForText(page, "sound", "#task");
  await press(page, "Restore…");
  await fill(page, "#restore-into", "as-before");
  await choose(page, "#restore-database", "shop");
  await moveTo(page, "#restore-at", "0");
  await click(page, "#restore");
  await waitForText(page, "quartet serve --data", "#task");
  assert.deepEqual(await readdir(join(folder, "restored")), ["as-before"]);
  await onRestored(join(folder, "restored", "as-before"), async (restored) => {
    assert.equal(await redis(restored, credentials.token, "GET", "price"), "1");
  });
  assert.equal(await redis(server, credentials.token, "GET", "price"), "2", "what is served is as it was");
  // Nothing that is there is written over.
  await press(page, "Restore…");
  await fill(page, "#restore-into", "as-before");
  await click(page, "#restore");
  await waitForText(page, "there is a folder of this name", ".problem");
});

test("only the operator asks for backups, and no request names a path", async (t) => {
  const { credentials } = await admin(server, "POST", "databases", { name: "tenant" });
  const ask = (path, key, body) => fetch(new URL(path, server.url), { method: body ? "POST" : "GET", headers: { authorization: `Bearer ${key}` }, body: body && JSON.stringify(body) });
  for (const key of [credentials.token, credentials.read_only_token, ""]) {
    for (const [path, body] of [["backup-targets"], ["backup-targets/nightly"], ["backup-targets/nightly/take", {}], ["backup-targets/nightly/restore", { into: "x" }]]) {
      assert.equal((await ask(`/admin/v1/${path}`, key, body)).status, 401, path);
    }
  }
  for (const name of ["none", "nightly%2f..", "..%2fnightly", encodeURIComponent(folder)]) {
    assert.equal((await ask(`/admin/v1/backup-targets/${name}/take`, server.key, {})).status, 404, name);
  }
  for (const into of ["..", "a/b", "/tmp/x", "", "A", "a".repeat(65)]) {
    const refused = await ask("/admin/v1/backup-targets/nightly/restore", server.key, { into });
    assert.equal(refused.status, 400, into);
  }
  assert.equal((await ask("/admin/v1/backup-targets/nightly/take", server.key, { to: "/tmp/x" })).status, 400);
  // A tenant's session sees its tables at most.
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, credentials.token);
  await page.waitForSelector("#keys");
  await go(page, "backups", "tenant");
  await waitForText(page, "Backups of the server are its operator's", "#view");
});

test("a table is backed up, and restored from that and as it was", async (t) => {
  const page = await asOperator(t);
  const runs = async (text) => {
    await go(page, "pad", "default", "DynamoDB");
    await page.waitForSelector('[data-name="DynamoDB"][aria-selected=true]');
    await fill(page, "#pad", text);
    await click(page, "#run");
    await page.waitForSelector("#result");
    const result = await page.$eval("#result", (element) => element.innerText);
    await go(page, "backups", "default");
    await page.waitForSelector("#tables");
    return result;
  };
  await runs('CreateTable { TableName: "orders", AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }], KeySchema: [{ AttributeName: "id", KeyType: "HASH" }], BillingMode: "PAY_PER_REQUEST" }');
  await click(page, '[aria-label="History of orders"]');
  await waitForText(page, "since", "#tables");
  await runs('PutItem { TableName: "orders", Item: { id: { S: "1" }, state: { S: "new" } } }');
  await click(page, '[aria-label="Back up orders"]');
  await waitForText(page, "AVAILABLE", "#table-backups");
  await runs('PutItem { TableName: "orders", Item: { id: { S: "1" }, state: { S: "sent" } } }');
  const restored = async (button, name) => {
    const found = await page.waitForFunction((table, text) => [...document.querySelectorAll(`${table} button`)].find((found) => found.innerText === text && !found.disabled), {}, ...button);
    await found.asElement().evaluate((found) => found.click());
    await fill(page, "#restored-table", name);
    await click(page, "#restore-table");
    await page.waitForFunction((name) => [...document.querySelectorAll("#tables tbody tr")].some((row) => row.cells[0].innerText === name && row.cells[1].innerText === "ACTIVE"), {}, name);
    return runs(`GetItem { TableName: "${name}", Key: { id: { S: "1" } } }`);
  };
  assert.match(await restored(["#table-backups", "Restore…"], "orders-backup"), /"new"/);
  assert.match(await restored(["#tables", "As it was…"], "orders-latest"), /"sent"/);
  if (PICTURES) {
    await mkdir(PICTURES, { recursive: true });
    await page.waitForFunction(() => document.querySelectorAll("#tables tbody tr").length === 3);
    await page.evaluate(() => {
      document.querySelector('[aria-label="Target nightly"] code').innerText = "/var/backups/quartet";
      document.querySelector("#task").remove();
      scrollTo(0, 0);
    });
    await page.screenshot({ path: `${PICTURES}/backups.png` });
  }
});

test("damage is told of and restores nothing", async (t) => {
  const page = await asOperator(t);
  await go(page, "backups", "default");
  await click(page, "#take-nightly");
  await page.waitForFunction(() => !document.querySelector("#take-nightly").disabled && document.querySelector("#task .good") && document.querySelectorAll("#chains-nightly tbody tr").length > 0);
  const part = (await readdir(join(folder, "nightly"))).find((name) => name.startsWith("part-"));
  await writeFile(join(folder, "nightly", part), "not what was written");
  await press(page, "Restore…");
  await fill(page, "#restore-into", "never");
  await click(page, "#restore");
  await waitForText(page, "damaged", "#task");
  assert.ok(!(await readdir(join(folder, "restored"))).includes("never"));
});
