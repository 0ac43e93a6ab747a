const { readFileSync } = require("node:fs");
const { startQuartet } = require("quartet-server");
const { Redis: Upstash } = require("@upstash/redis");
const { DynamoDBClient, ListTablesCommand } = require("@aws-sdk/client-dynamodb");
const IORedis = require("ioredis");
const faunadb = require("faunadb");

async function main() {
  const quartet = await startQuartet();
  const redis = new IORedis(quartet.redisUrl);
  await redis.set("greeting", "hello");
  const rest = new Upstash({ url: quartet.restUrl, token: quartet.restToken });
  Object.assign(process.env, quartet.environment);
  const tables = new DynamoDBClient();
  const { hostname: domain, port, protocol } = new URL(quartet.faunaUrl);
  const fauna = new faunadb.Client({ secret: quartet.faunaSecret, domain, port: Number(port), scheme: protocol.slice(0, -1) });
  const answers = {
    redis: await redis.get("greeting"),
    rest: await rest.get("greeting"),
    dynamodb: (await tables.send(new ListTablesCommand({}))).TableNames,
    fauna: await fauna.query(faunadb.query.Add(1, 2)),
    cluster: readFileSync(quartet.clusterFile, "utf8").startsWith("quartet:dev@127.0.0.1:"),
  };
  await redis.quit();
  await fauna.close();
  await quartet.stop();
  console.log(JSON.stringify(answers));
}

main();
