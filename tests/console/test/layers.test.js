// FaunaDB and DynamoDB in the console: browsing, editing, looking back, and the pad.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import faunadb from "faunadb";
import { click, exportAll, fill, logIn, openBrowser, openPage, press, waitForText } from "../browser.js";
import { startServer } from "../server.js";

const q = faunadb.query;
const MARKUP = "<script>alert(1)</script>";
let server, browser, client;

before(async () => {
  [server, browser] = await Promise.all([startServer(), openBrowser()]);
  const { hostname, port } = new URL(server.addresses.fauna);
  client = new faunadb.Client({ secret: server.key, domain: hostname, port: Number(port), scheme: "http", http2SessionIdleTime: 0 });
});
after(async () => {
  await browser?.close();
  client?.close({ force: true });
  await server?.close();
});

async function asOperator(t) {
  const page = await openPage(browser);
  await logIn(page, server, server.key);
  await page.waitForSelector("#keys");
  t.after(() => page.finish());
  return page;
}

const go = (page, ...parts) => page.evaluate((hash) => void (location.hash = hash), "#/" + parts.map(encodeURIComponent).join("/"));

/** Runs a text in a language of the pad, and answers what is shown. */
async function runInPad(page, database, language, text, role = "") {
  await go(page, "pad", database, language);
  await page.waitForSelector(`[data-name="${language}"][aria-selected=true]`);
  await fill(page, "#pad", text);
  if (role) await fill(page, "#role", role);
  await click(page, "#run");
  await page.waitForSelector("#result, .problem");
  return page.evaluate(() => (document.querySelector("#result") ?? document.querySelector(".problem")).innerText);
}

test("documents are made, changed, looked at as they were, and put back", async (t) => {
  await client.query(q.CreateCollection({ name: "spells" }));
  const page = await asOperator(t);
  await go(page, "fauna", "default", "", "collection", "spells");
  await waitForText(page, "Nothing here.", "#view");
  await click(page, "#new-document");
  await fill(page, "#document-data", `{ name: "Fire", tag: "${MARKUP}", at: Date("2020-01-01") }`);
  await click(page, "#create");
  await page.waitForSelector("#delete-document");
  await waitForText(page, MARKUP, "#documents");
  await fill(page, "#document-data", '{ name: "Ice" }');
  await click(page, "#save");
  await waitForText(page, "Ice", "#documents");
  const [made] = (await client.query(q.Paginate(q.Documents(q.Collection("spells"))))).data;
  assert.deepEqual((await client.query(q.Get(made))).data, { name: "Ice" });
  // The first moment of its history.
  await page.waitForFunction(() => document.querySelectorAll("section[aria-label=Document] ol button").length === 2);
  await page.$eval("section[aria-label=Document] ol button", (button) => button.click());
  await page.waitForFunction(() => document.querySelector("#document-data").value.includes("Fire"));
  await click(page, "#restore");
  await waitForText(page, "Fire", "#documents");
  assert.equal((await client.query(q.Get(made))).data.name, "Fire");
  assert.equal(String((await client.query(q.Get(made))).data.at), 'Date("2020-01-01")');
  // The slider of the collection, at its far end: it was empty then.
  await page.$eval("section[aria-label=Documents] #slider", (slider) => {
    slider.value = "0";
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await waitForText(page, "(read only)", "section[aria-label=Documents]");
  await waitForText(page, "Nothing here.", "section[aria-label=Documents]");
});

test("a document's numbers survive an edit of something else", async (t) => {
  await client.query(q.CreateCollection({ name: "exact" }));
  const ask = async (body) => {
    const headers = { authorization: `Bearer ${server.key}`, "x-faunadb-api-version": "4" };
    return (await fetch(server.addresses.fauna, { method: "POST", headers, body })).text();
  };
  const data = '{"whole":9007199254740993,"double":1.0,"less":-1.5,"word":"before"}';
  await ask(`{"create": {"ref": {"collection": "exact"}, "id": "1"}, "params": {"object": {"data": {"object": ${data}}}}}`);
  const page = await asOperator(t);
  await go(page, "fauna", "default", "", "collection", "exact", "1");
  await page.waitForFunction(() => document.querySelector("#document-data")?.value.includes("before"));
  const text = await page.$eval("#document-data", (field) => field.value);
  await fill(page, "#document-data", text.replace("before", "after"));
  await click(page, "#save");
  await waitForText(page, "after", "#documents");
  assert.match(await ask('{"get": {"ref": {"collection": "exact"}, "id": "1"}}'), /"data":\{"whole":9007199254740993,"double":1\.0,"less":-1\.5,"word":"after"\}/);
});

test("documents come page by page, and all of them are counted before they are deleted", async (t) => {
  await client.query(q.CreateCollection({ name: "many" }));
  await client.query(q.Foreach(Array.from({ length: 130 }, (_, index) => index), q.Lambda("n", q.Create(q.Collection("many"), { data: { n: q.Var("n") } }))));
  const page = await asOperator(t);
  await go(page, "fauna", "default", "", "collection", "many");
  const rows = (number) => page.waitForFunction((number) => document.querySelectorAll("#documents tbody tr").length === number, {}, number);
  for (const number of [50, 100, 130]) {
    await rows(number);
    if (number < 130) await click(page, "#more");
  }
  await click(page, "#delete-matching");
  await waitForText(page, "Delete all 130 documents", "dialog");
  await fill(page, "dialog input", "130");
  await click(page, "#confirm");
  await rows(0);
  assert.equal(await client.query(q.Count(q.Documents(q.Collection("many")))), 0);
});

test("the tree has collections, indexes, functions and databases below", async (t) => {
  await client.query(q.CreateCollection({ name: "posts" }));
  await client.query(q.CreateIndex({ name: "posts_by_tag", source: q.Collection("posts"), terms: [{ field: ["data", "tag"] }], values: [{ field: ["data", "n"] }, { field: ["ref"] }] }));
  await client.query(q.CreateFunction({ name: "double", body: q.Query(q.Lambda("x", q.Multiply(2, q.Var("x")))) }));
  await client.query(q.CreateDatabase({ name: "below" }));
  await client.query(q.Create(q.Collection("posts"), { data: { tag: "red", n: 7 } }));
  const page = await asOperator(t);
  await go(page, "fauna", "default");
  await page.waitForSelector('aside [aria-label="Open Collections"]');
  for (const kind of ["Collections", "Indexes", "Functions", "Databases"]) await page.$eval(`aside [aria-label="Open ${kind}"]`, (button) => button.click());
  for (const name of ["posts", "posts_by_tag", "double", "below"]) await waitForText(page, name, "aside a");
  await go(page, "fauna", "default", "", "index", "posts_by_tag");
  await fill(page, "#terms", '"red"');
  await page.keyboard.press("Enter");
  await waitForText(page, "7", "#entries");
  await go(page, "fauna", "default", "", "schema", "function", "double");
  await page.waitForFunction(() => document.querySelector("#definition")?.value.includes('Query(Lambda("x", Multiply(2, Var("x"))))'));
  // A child database is its own.
  assert.match(await runInPad(page, "default", "FQL", 'CreateCollection({ name: "inner" })', "below:admin"), /Collection\("inner"\)/);
  await go(page, "fauna", "default", "below", "collection", "inner");
  await waitForText(page, "Nothing here.", "#view");
});

test("the pad runs FQL as people type it, as JSON, as a role, and tells what it cost", async (t) => {
  await client.query(q.CreateCollection({ name: "numbers" }));
  await client.query(q.CreateRole({ name: "reader", privileges: [{ resource: q.Collection("numbers"), actions: { read: true } }] }));
  const page = await asOperator(t);
  assert.match(await runInPad(page, "default", "FQL", "Map([1, 2, 3], x => Add(x, 1))"), /\[\s*2,\s*3,\s*4\s*\]/);
  await waitForText(page, "compute ops", "#cost");
  await press(page, "The same as code");
  for (const [language, line] of [["Python", 'q.map_([1, 2, 3], q.lambda_("x", q.add(q.var("x"), 1)))'], ["Go", 'f.Map(f.Arr{1, 2, 3}, f.Lambda("x", f.Add(f.Var("x"), 1)))'], ["Java", 'Map(Arr(Value(1), Value(2), Value(3)), Lambda(Value("x"), Add(Var("x"), Value(1))))']]) {
    await press(page, language);
    await waitForText(page, line, "#code");
  }
  assert.equal((await runInPad(page, "default", "FQL", '{"add": [40, 2]}')).trim(), "42");
  assert.match(await runInPad(page, "default", "FQL", "alert(1)"), /there is no function alert/);
  // What was run before a refusal was not shown.
  assert.match(await runInPad(page, "default", "FQL", 'Add(40, 2)\nGet(Ref(Collection("nowhere"), "1"))\nAdd(1, 1)'), /^42\s+query 2: invalid ref[^]*\(1 more not run\)/);
  assert.match(await runInPad(page, "default", "FQL", 'Create(Collection("numbers"), { data: {} })', "@role/reader"), /permission denied/);
  assert.match(await runInPad(page, "default", "FQL", 'Count(Documents(Collection("numbers")))', "@role/reader"), /^0\s*$/);
  await fill(page, "#pad", "Pagi");
  await waitForText(page, "Paginate", ".complete");
});

test("tables, items and their types, by scan and by query", async (t) => {
  const page = await asOperator(t);
  const made = await runInPad(page, "default", "DynamoDB", `CreateTable {
    TableName: "Music", BillingMode: "PAY_PER_REQUEST",
    AttributeDefinitions: [{ AttributeName: "Artist", AttributeType: "S" }, { AttributeName: "Song", AttributeType: "S" }, { AttributeName: "Year", AttributeType: "N" }],
    KeySchema: [{ AttributeName: "Artist", KeyType: "HASH" }, { AttributeName: "Song", KeyType: "RANGE" }],
    GlobalSecondaryIndexes: [{ IndexName: "ByYear", KeySchema: [{ AttributeName: "Year", KeyType: "HASH" }], Projection: { ProjectionType: "ALL" } }]
  }`);
  assert.match(made, /"TableName": "Music"/);
  await runInPad(page, "default", "PartiQL", `INSERT INTO "Music" VALUE {'Artist': 'Bowie', 'Song': 'Heroes', 'Year': 1977};
    INSERT INTO "Music" VALUE {'Artist': 'Bowie', 'Song': '${MARKUP}', 'Year': 1999}; INSERT INTO "Music" VALUE {'Artist': 'Nina', 'Song': 'Four; Women', 'Year': 1966}`);
  await waitForText(page, "capacity units", "#cost");
  assert.match(await runInPad(page, "default", "PartiQL", `SELECT Song FROM "Music" WHERE Artist = 'Nina'`), /Four; Women/);
  await press(page, "The same as code");
  for (const [language, line] of [["Python", "client.execute_statement("], ["JavaScript", "ExecuteStatementCommand"], ["PHP", "executeStatement("], ["Shell", "aws dynamodb execute-statement"]]) {
    await press(page, language);
    await waitForText(page, line, "#code");
  }
  await go(page, "dynamodb", "default", "Music");
  await waitForText(page, MARKUP, "#items");
  await waitForText(page, "Scan: ", "#cost");
  await fill(page, "#partition", "Bowie");
  await fill(page, "#sort", "He");
  await page.keyboard.press("Enter");
  await waitForText(page, "Query: ", "#cost");
  await page.waitForFunction(() => document.querySelectorAll("#items tbody tr").length === 1);
  await page.$eval("#items a.key", (link) => link.click());
  await page.waitForSelector("#item");
  await fill(page, "#item", '{"Artist": "Bowie", "Song": "Heroes", "Year": 1977, "Tags": ["a", {"b": null}], "Price": 0.5}');
  await click(page, "#save");
  await waitForText(page, "0.5", "#items");
  await click(page, "#new-item");
  await fill(page, "#item", '{"Artist": "Bowie", "Song": "Heroes"}');
  await click(page, "#save");
  await waitForText(page, "ConditionalCheckFailed", "section[aria-label=Item] .problem");
  await fill(page, "#item", '{"Artist": "Bowie", "Song": "Changes"}');
  await click(page, "#save");
  await waitForText(page, "Bowie / Changes", "section[aria-label=Item] h2");
  const item = JSON.parse(await runInPad(page, "default", "DynamoDB", 'GetItem {"TableName": "Music", "Key": {"Artist": {"S": "Bowie"}, "Song": {"S": "Heroes"}}}')).Item;
  assert.deepEqual(item.Tags, { L: [{ S: "a" }, { M: { b: { NULL: true } } }] });
  await go(page, "dynamodb", "default", "Music", "ByYear");
  await fill(page, "#partition", "1966");
  await page.keyboard.press("Enter");
  await waitForText(page, "Four; Women", "#items");
  await go(page, "dynamodb", "default", "Music");
  await page.waitForFunction(() => document.querySelectorAll("#items tbody tr").length === 4);
  await click(page, "#delete-matching");
  await waitForText(page, "Delete all 4 items", "dialog");
  await fill(page, "dialog input", "4");
  await click(page, "#confirm");
  await waitForText(page, "Nothing here.", "#view");
});

test("a key of Fauna that may only read opens documents and changes none", async (t) => {
  await client.query(q.CreateCollection({ name: "kept" }));
  await client.query(q.Create(q.Ref(q.Collection("kept"), "1"), { data: { word: "as it was" } }));
  const { secret } = await client.query(q.CreateKey({ role: "server-readonly" }));
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, secret);
  await page.waitForSelector("aside .tree");
  await go(page, "fauna", "default", "", "collection", "kept", "1");
  await page.waitForFunction(() => document.querySelector("#document-data")?.value.includes("as it was"));
  await fill(page, "#document-data", "{}");
  await click(page, "#save");
  await waitForText(page, "permission denied", "section[aria-label=Document] .problem");
  assert.equal((await client.query(q.Get(q.Ref(q.Collection("kept"), "1")))).data.word, "as it was");
});

test("an access key of DynamoDB opens DynamoDB alone", async (t) => {
  const page = await openPage(browser);
  t.after(() => page.finish());
  await logIn(page, server, `${server.accessKey.id}:wrong`);
  await waitForText(page, "opens nothing", ".problem");
  await fill(page, "#credential", `${server.accessKey.id}:${server.accessKey.secret}`);
  await page.keyboard.press("Enter");
  await page.waitForSelector("aside .tree");
  assert.match(await runInPad(page, "default", "DynamoDB", "ListTables {}"), /TableNames/);
  assert.deepEqual(await page.$$eval("#view [aria-label=Language] [role=tab]", (tabs) => tabs.map((tab) => tab.innerText)), ["DynamoDB", "PartiQL"]);
});

test("an item is looked at as it was, and after it is gone", async (t) => {
  const page = await asOperator(t);
  const table = { TableName: "was", AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }], KeySchema: [{ AttributeName: "id", KeyType: "HASH" }], BillingMode: "PAY_PER_REQUEST" };
  await runInPad(page, "default", "DynamoDB", `CreateTable ${JSON.stringify(table)}`);
  for (const state of ["new", MARKUP]) await runInPad(page, "default", "PartiQL", `${state === "new" ? `INSERT INTO "was" VALUE {'id': '1', 'state': 'new'}` : `UPDATE "was" SET state = '${state}' WHERE id = '1'`}`);
  await runInPad(page, "default", "PartiQL", `INSERT INTO "was" VALUE {'id': '2', 'state': 'other'}`);
  await runInPad(page, "default", "PartiQL", `DELETE FROM "was" WHERE id = '1'`);
  await go(page, "dynamodb", "default", "was", "", '{"id":{"S":"1"}}');
  await waitForText(page, "There is no such item.", "section[aria-label=Item]");
  await page.$eval("details.as-of summary", (summary) => summary.click());
  await waitForText(page, "3 of 3", "details.as-of");
  await waitForText(page, "(deleted)", "#moment-text");
  await (await page.waitForSelector("#moment")).focus();
  await page.keyboard.press("ArrowLeft");
  await waitForText(page, MARKUP, "#moment-text");
  await page.keyboard.press("Home");
  await waitForText(page, '"new"', "#moment-text");
});

test("a table is exported as a whole, and so is what a query finds", async (t) => {
  const page = await asOperator(t);
  const keys = [{ AttributeName: "shelf", KeyType: "HASH" }, { AttributeName: "place", KeyType: "RANGE" }];
  const types = [{ AttributeName: "shelf", AttributeType: "S" }, { AttributeName: "place", AttributeType: "N" }];
  await runInPad(page, "default", "DynamoDB", `CreateTable ${JSON.stringify({ TableName: "books", AttributeDefinitions: types, KeySchema: keys, BillingMode: "PAY_PER_REQUEST" })}`);
  for (let from = 0; from < 250; from += 25) {
    const puts = Array.from({ length: 25 }, (_, index) => ({ PutRequest: { Item: { shelf: { S: (from + index) % 5 ? "high" : "low" }, place: { N: String(from + index) }, title: { S: MARKUP } } } }));
    await runInPad(page, "default", "DynamoDB", `BatchWriteItem ${JSON.stringify({ RequestItems: { books: puts } })}`);
  }
  await go(page, "dynamodb", "default", "books");
  await waitForText(page, "more to come", "#shown-count");
  const all = await exportAll(page);
  assert.deepEqual(all.map(({ place }) => place).sort((one, other) => one - other), Array.from({ length: 250 }, (_, place) => place));
  assert.deepEqual(all.find(({ place }) => place === 7), { shelf: "high", place: 7, title: MARKUP });
  await page.reload();
  await fill(page, "#partition", "low");
  await press(page, "Query");
  await waitForText(page, "50 shown", "#shown-count");
  const found = await exportAll(page);
  assert.deepEqual(found.map(({ place }) => place), Array.from({ length: 50 }, (_, index) => 5 * index));
});
