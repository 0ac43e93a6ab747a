// Redis over REST: the requests and answers themselves, as docs/rest.md describes them.
import assert from "node:assert/strict";
import http2 from "node:http2";
import { before, describe, test } from "node:test";
import { gzipSync } from "node:zlib";
import { httpPort, readOnlyToken } from "./target.js";

const url = `http://127.0.0.1:${httpPort}`;

/** Sends a request; answers status, headers and the body as JSON. */
async function ask(path, { body, headers = {}, method = body === undefined ? "GET" : "POST" } = {}) {
  const sent = typeof body === "string" || body instanceof Uint8Array || body === undefined ? body : JSON.stringify(body);
  const response = await fetch(url + path, { method, headers, body: sent });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, json: text.startsWith("{") || text.startsWith("[") ? JSON.parse(text) : undefined };
}

async function check(path, options, status, json) {
  const answer = await ask(path, options);
  assert.deepEqual([answer.status, answer.json], [status, json]);
  return answer;
}

const refused = (error) => ({ error });

describe("REST", { skip: !httpPort }, () => {
  before(() => ask("/flushall"));

  test("a command in the path", async () => {
    const { headers } = await check("/set/foo/bar/EX/100", {}, 200, { result: "OK" });
    assert.equal(headers.get("content-type"), "application/json");
    await check("/GET/foo", {}, 200, { result: "bar" });
    await check("/get/nothing", { method: "PUT" }, 200, { result: null });
    assert.ok((await ask("/ttl/foo")).json.result > 0);
    await check("/set/a%2Fb/%C3%A4", {}, 200, { result: "OK" });
    await check("/mget/a%2Fb/none", {}, 200, { result: ["ä", null] });
  });

  test("a value in the body, options in the query", async () => {
    await check("/set/doc?EX=50&NX", { body: '{"a":1}' }, 200, { result: "OK" });
    await check("/get/doc", {}, 200, { result: '{"a":1}' });
    assert.ok((await ask("/ttl/doc")).json.result > 0);
    await check("/set/bytes", { body: new Uint8Array([0xff, 0x00]) }, 200, { result: "OK" });
    await check("/get/bytes", { headers: { "upstash-encoding": "base64" } }, 200, { result: "/wA=" });
    await check("/get/bytes", {}, 200, { result: "\ufffd\u0000" });
  });

  test("a command in the body", async () => {
    await check("/", { body: ["SET", "n", 1.5, "EX", 100] }, 200, { result: "OK" });
    await check("/", { body: ["INCRBYFLOAT", "n", "1"] }, 200, { result: "2.5" });
    await check("/", { body: ["ZADD", "z", 1, "a", 2, "b"] }, 200, { result: 2 });
    await check("/", { body: ["ZRANGE", "z", 0, -1, "WITHSCORES"] }, 200, { result: ["a", "1", "b", "2"] });
    await check("/", { body: ["SET", "flag", true] }, 200, { result: "OK" });
    await check("/", { body: ["GET", "flag"] }, 200, { result: "true" });
  });

  test("errors and their statuses", async () => {
    await check("/incr/foo", {}, 400, refused("ERR value is not an integer or out of range"));
    await check("/get", {}, 400, refused("ERR wrong number of arguments for 'get' command"));
    await check("/", { body: "{" }, 400, refused("ERR failed to parse command: a JSON array with the command's name and arguments is expected"));
    await check("/", { body: [] }, 400, refused("ERR empty command"));
    await check("/pipeline", { body: ["GET", "a"] }, 400, refused("ERR failed to parse the request: a JSON array of commands, each an array itself, is expected"));
    await check("/get/foo", { method: "DELETE" }, 405, refused("ERR method not allowed: DELETE"));
    await check("/get/%zz", {}, 400, refused("ERR failed to parse the path: malformed percent-encoding"));
    for (const path of ["/blpop/x/0", "/multi", "/watch/a", "/subscribe/a", "/select/1", "/monitor", "/xread/BLOCK/0/STREAMS/a/0"]) {
      const { status, json } = await ask(path);
      assert.equal(status, 400);
      assert.match(json.error, /^ERR Command is not available: '/);
    }
  });

  test("pipelines go on behind an error", async () => {
    const body = [["SET", "k", "v"], ["INCR", "k"], ["BLPOP", "x", 0], ["GET", "k"], ["NOSUCH"]];
    const { status, json } = await ask("/pipeline", { body });
    assert.equal(status, 200);
    assert.deepEqual([json[0], json[1], json[3]], [{ result: "OK" }, refused("ERR value is not an integer or out of range"), { result: "v" }]);
    assert.match(json[2].error, /^ERR Command is not available: 'BLPOP'/);
    assert.match(json[4].error, /^ERR unknown command 'NOSUCH'/);
    assert.deepEqual((await ask("/pipeline", { body: [] })).json, []);
  });

  test("a pipeline longer than a thread takes at once keeps its order", async () => {
    const commands = Array.from({ length: 5000 }, (_, index) => ["RPUSH", "long", index]);
    const { json } = await ask("/pipeline", { body: commands });
    assert.deepEqual(json.map(({ result }) => result), commands.map((_, index) => index + 1));
  });

  test("transactions are all or none", async () => {
    await check("/multi-exec", { body: [["SET", "t", "1"], ["LPUSH", "t", "x"], ["INCR", "t"]] }, 200,
      [{ result: "OK" }, refused("WRONGTYPE Operation against a key holding the wrong kind of value"), { result: 2 }]);
    const { status, json } = await ask("/multi-exec", { body: [["SET", "t", "9"], ["NOSUCH"]] });
    assert.equal(status, 400);
    assert.match(json.error, /^ERR unknown command/);
    assert.match((await ask("/multi-exec", { body: [["SET", "t", "9"], ["EXEC"]] })).json.error, /^ERR Command is not available: 'EXEC'/);
    await check("/get/t", {}, 200, { result: "2" });
    await check("/multi-exec", { body: [] }, 200, []);
  });

  test("tokens: read-only, of a user, in the query", async () => {
    const readOnly = { headers: { authorization: `Bearer ${readOnlyToken}` } };
    await check("/set/foo/bar", {}, 200, { result: "OK" });
    await check("/get/foo", readOnly, 200, { result: "bar" });
    await check(`/get/foo?_token=${readOnlyToken}`, {}, 200, { result: "bar" });
    for (const path of ["/set/foo/x", "/keys/*", "/scan/0", "/flushall", "/eval/return 1/0", "/acl/list"]) {
      const { status, json } = await ask(path, readOnly);
      assert.equal(status, 400);
      assert.match(json.error, /^NOPERM /);
    }
    await check("/acl/setuser/app/on/%3Esecret/~app:*/+get/+set", {}, 200, { result: "OK" });
    const { json: { result: token } } = await ask("/acl/resttoken/app/secret");
    const app = { headers: { authorization: `Bearer ${token}` } };
    await check("/set/app:1/x", app, 200, { result: "OK" });
    assert.match((await ask("/set/other/x", app)).json.error, /^NOPERM /);
    await check("/acl/resttoken/app/wrong", {}, 400, refused('ERR Wrong password or user "app" does not exist'));
    await ask("/acl/deluser/app");
  });

  test("formats: Base64, RESP2", async () => {
    const base64 = { "upstash-encoding": "base64" };
    await check("/set/foo/bar", { headers: base64 }, 200, { result: "OK" });
    await check("/ping", { headers: base64 }, 200, { result: "UE9ORw==" });
    await check("/pipeline", { body: [["GET", "foo"], ["MGET", "foo", "none"], ["NOSUCH"]], headers: base64 }, 200,
      [{ result: "YmFy" }, { result: ["YmFy", null] }, refused("ERR unknown command 'NOSUCH', with args beginning with: ")]);
    const raw = await ask("/get/foo", { headers: { "upstash-response-format": "resp2" } });
    assert.deepEqual([raw.headers.get("content-type"), raw.text], ["application/octet-stream", "$3\r\nbar\r\n"]);
    assert.equal((await ask("/get/foo", { headers: { "upstash-response-format": "xml" } })).status, 400);
    assert.equal((await ask("/get/foo", { headers: { "upstash-response-format": "resp2", ...base64 } })).status, 400);
  });

  test("the sync token moves with each write", async () => {
    const tokenAfter = async (path, options) => BigInt((await ask(path, options)).headers.get("upstash-sync-token"));
    const tokens = [await tokenAfter("/set/s/1"), await tokenAfter("/set/s/2"), await tokenAfter("/pipeline", { body: [["SET", "s", 3]] })];
    assert.ok(tokens[0] < tokens[1] && tokens[1] < tokens[2]);
    await check("/get/s", { headers: { "upstash-sync-token": "garbage" } }, 200, { result: "3" });
  });

  test("bodies may be compressed, both ways", async () => {
    const value = "x".repeat(20_000);
    await check("/set/big", { body: gzipSync(value), headers: { "content-encoding": "gzip" } }, 200, { result: "OK" });
    const { json, headers } = await ask("/get/big", { headers: { "accept-encoding": "gzip" } });
    assert.deepEqual([json.result, headers.get("content-encoding")], [value, "gzip"]);
    assert.equal((await ask("/set/big", { body: "broken", headers: { "content-encoding": "gzip" } })).status, 400);
  });

  test("HTTP/2 with prior knowledge", async () => {
    const session = http2.connect(url);
    const stream = session.request({ ":path": "/echo/two" });
    let body = "";
    for await (const part of stream.setEncoding("utf8")) body += part;
    session.close();
    assert.equal(body, '{"result":"two"}');
  });

  test("event streams", async () => {
    const abort = new AbortController();
    const open = (path) => fetch(url + path, { method: "POST", body: "[]", headers: { accept: "text/event-stream" }, signal: abort.signal });
    const [subscribed, matched, monitor] = await Promise.all([open("/subscribe/chat"), open("/psubscribe/ch*"), open("/monitor")]);
    assert.equal(subscribed.headers.get("content-type"), "text/event-stream");
    await check("/publish/chat/hello", {}, 200, { result: 2 });
    const until = async (response, wanted) => {
      let text = "";
      const decoder = new TextDecoder();
      for await (const part of response.body) {
        text += decoder.decode(part);
        if (text.includes(wanted)) return text;
      }
      throw new Error(`the stream ended: ${text}`);
    };
    assert.equal(await until(subscribed, "hello"), "data: subscribe,chat,1\n\ndata: message,chat,hello\n\n");
    assert.equal(await until(matched, "hello"), "data: psubscribe,ch*,1\n\ndata: pmessage,ch*,chat,hello\n\n");
    assert.match(await until(monitor, "publish"), /^data: "OK"\n\n(data: .*\n\n)*data: \d+\.\d{6} \[0 0\.0\.0\.0:0\] "publish" "chat" "hello"\n\n$/);
    abort.abort();
    const refusedStream = await fetch(`${url}/subscribe/chat`, { headers: { accept: "text/event-stream", authorization: `Bearer ${readOnlyToken}` } });
    assert.equal(refusedStream.status, 400);
    assert.match((await refusedStream.json()).error, /^NOPERM /);
  });

  test("a page of another site gets nothing from a server that asks for no token", async () => {
    // fetch would not send these headers.
    const session = http2.connect(url);
    const statusWith = (headers) => new Promise((resolve) => {
      const stream = session.request({ ":path": "/ping", ...headers });
      stream.on("response", (head) => resolve(head[":status"]));
      stream.resume();
    });
    assert.equal(await statusWith({ origin: "https://example.com" }), 401);
    assert.equal(await statusWith({ "sec-fetch-site": "cross-site" }), 401);
    assert.equal(await statusWith({ origin: "http://localhost:3000" }), 200);
    assert.equal(await statusWith({ origin: "https://example.com", authorization: `Bearer ${readOnlyToken}` }), 200);
    session.close();
  });

  test("scripts that take long", async () => {
    await check("/", { body: ["EVAL", "local i = 0 while i < 2e6 do i = i + 1 end return i", "0"] }, 200, { result: 2_000_000 });
  });
});
