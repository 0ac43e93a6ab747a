// Consoles that people have already: their usual pages show what is there, change it, and make no errors.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { after, before, test } from "node:test";
import { openBrowser, openPage, waitForText } from "../browser.js";
import { redis, startServer } from "../server.js";

const require = createRequire(import.meta.url);
let server, browser;
const programs = [];

before(async () => {
  [server, browser] = await Promise.all([startServer("--dev"), openBrowser()]);
});
after(async () => {
  await browser?.close();
  for (const program of programs) program.kill("SIGKILL");
  await server?.close();
});

/** A free port below those that the system gives to clients and to listeners on port 0: nobody gets it before its program listens. */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const probe = createServer();
    const isFree = await new Promise((resolve) => probe.once("error", () => resolve(false)).listen(port, "127.0.0.1", () => resolve(true)));
    if (!isFree) continue;
    await new Promise((resolve) => probe.close(resolve));
    return port;
  }
}

/** Starts a program of npm, and answers its URL once it says that it listens. */
function start(name, file, options, environment, says) {
  const program = spawn(process.execPath, [require.resolve(`${name}/package.json`).replace("package.json", file), ...options], { env: { ...process.env, ...environment } });
  programs.push(program);
  return new Promise((resolve, reject) => {
    let output = "";
    const read = (text) => {
      output += text;
      const found = says.exec(output);
      if (found) resolve(found[1]);
    };
    program.stdout.on("data", read);
    program.stderr.on("data", read);
    program.on("exit", () => reject(new Error(`${name} ended:\n${output}`)));
  });
}

/** A page that fails the test if its script throws or the program answers that it failed. */
async function openGui(t) {
  const page = await openPage(browser);
  const failed = [];
  page.on("response", (response) => response.status() >= 500 && failed.push(`${response.status()} ${response.url()}`));
  t.after(async () => {
    await page.browserContext().close();
    assert.deepEqual([page.seen.wrong.filter((text) => text.startsWith("thrown")), failed], [[], []]);
  });
  return page;
}

test("redis-commander shows keys and what they hold", async (t) => {
  await redis(server, "dev", "SET", "gui:string", "seen");
  await redis(server, "dev", "HSET", "gui:hash", "field", "in the hash");
  const port = new URL(server.addresses.redis).port;
  const own = await freePort();
  const options = ["--redis-host", "127.0.0.1", "--redis-port", port, "--address", "127.0.0.1", "--port", String(own), "--nosave", "--noload"];
  const url = await start("redis-commander", "bin/redis-commander.js", options, {}, /browser at (http:\S+)/);
  const page = await openGui(t);
  await page.goto(url);
  const open = async (name) => {
    const node = await page.waitForFunction((name) => [...document.querySelectorAll("#keyTree a")].find((link) => link.innerText.trim().split(" ")[0] === name), {}, name);
    await node.asElement().evaluate((link) => link.click());
  };
  // A click that comes while the tree is being drawn anew is lost, so it is repeated until the branch is open.
  const unfold = (name) =>
    page.waitForFunction(
      (name) => {
        const branch = [...document.querySelectorAll("#keyTree li")].find((item) => item.querySelector(":scope > a")?.innerText.includes(name));
        if (branch?.matches(".jstree-closed:not(.jstree-loading)")) branch.querySelector("i.jstree-ocl").click();
        return branch?.matches(".jstree-open:not(.jstree-loading)");
      },
      { polling: 500 },
      name,
    );
  for (const name of ["127.0.0.1:" + port, "gui:*"]) await unfold(name);
  await open("string");
  await waitForText(page, "gui:string", "#body");
  await page.waitForFunction(() => [...document.querySelectorAll("#body textarea")].some((field) => field.value.includes("seen")));
  await open("hash");
  await waitForText(page, "in the hash", "#body");
});

async function dynamodb(operation, input) {
  const authorization = "AWS4-HMAC-SHA256 Credential=key/20200101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=none";
  const date = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
  const headers = { "content-type": "application/x-amz-json-1.0", "x-amz-target": `DynamoDB_20120810.${operation}`, "x-amz-date": date, authorization };
  const answer = await fetch(server.addresses.dynamodb, { method: "POST", headers, body: JSON.stringify(input) });
  assert.equal(answer.status, 200, await answer.text());
}

test("dynamodb-admin shows tables, items and what a table is", async (t) => {
  const environment = { DYNAMO_ENDPOINT: server.addresses.dynamodb, AWS_REGION: "us-east-1", AWS_ACCESS_KEY_ID: "key", AWS_SECRET_ACCESS_KEY: "secret" };
  const url = await start("dynamodb-admin", "dist/dynamodb-admin.js", ["--host", "127.0.0.1", "--port", "0"], environment, /listening on (http:\S+)/);
  const page = await openGui(t);
  const open = (path) => page.goto(new URL(path, url).href);
  // Its form for a table sends numbers as texts, which the service refuses, so the table is made without it.
  await open("/create-table");
  await page.waitForSelector("#TableName");
  await dynamodb("CreateTable", {
    TableName: "Guests",
    AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
    KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
    BillingMode: "PAY_PER_REQUEST",
  });
  await dynamodb("PutItem", { TableName: "Guests", Item: { id: { S: "guest 1" }, name: { S: "Ann" } } });
  await open("/");
  await waitForText(page, "Guests");
  for (const [path, text] of [["/tables/Guests", "Ann"], ["/tables/Guests/get", "id"], ["/tables/Guests/meta", "KeySchema"], [`/tables/Guests/items/${encodeURIComponent("guest 1")}`, "Ann"]]) {
    await open(path);
    await waitForText(page, text);
  }
});
