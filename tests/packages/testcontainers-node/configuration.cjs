// What the module would ask of a container engine; none is asked here.
const assert = require("node:assert");
const { Readable } = require("node:stream");
const { QuartetContainer, StartedQuartetContainer, rootKey } = require(process.argv[2]);

async function main() {
  const container = new QuartetContainer();
  assert.deepStrictEqual(container.exposedPorts, [6379, 8080, 8000, 8443, 4500]);
  assert.deepStrictEqual(container.createOpts.Cmd, ["serve", "--data", "memory"]);
  assert.deepStrictEqual(container.environment ?? container.createOpts.Env, { QUARTET_DYNAMODB_ACCESS_KEYS: "quartet:quartet-secret" });
  const key = await rootKey(Readable.from(["DATA ARE IN MEMORY ONLY\nroot key, sho", "wn this once: qk_1\n", "ready\n"]));
  assert.strictEqual(key, "qk_1");
  await assert.rejects(rootKey(Readable.from(["ready\n"])), /printed no root key/);
  const started = new StartedQuartetContainer({ getHost: () => "127.0.0.1", getMappedPort: (port) => port + 10_000 }, key);
  assert.strictEqual(started.getRedisUrl(), "redis://:qk_1@127.0.0.1:16379");
  assert.strictEqual(started.getRestUrl(), "http://127.0.0.1:18080");
  assert.strictEqual(started.getDynamodbUrl(), "http://127.0.0.1:18000");
  assert.strictEqual(started.getFaunaUrl(), "http://127.0.0.1:18443");
  assert.strictEqual(started.getCluster(), "quartet:qk_1@127.0.0.1:14500");
  console.log("as expected");
}

main();
