// The AWS SDK for JavaScript v3; endpoint, region and key come from the environment (`python -m harness -- npm test`).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import {
  CreateTableCommand,
  DeleteTableCommand,
  DynamoDBClient,
  paginateListTables,
  waitUntilTableExists,
  waitUntilTableNotExists,
} from "@aws-sdk/client-dynamodb";
import { DescribeStreamCommand, DynamoDBStreamsClient, GetRecordsCommand, GetShardIteratorCommand } from "@aws-sdk/client-dynamodb-streams";
import {
  BatchWriteCommand,
  DynamoDBDocumentClient,
  ExecuteStatementCommand,
  GetCommand,
  paginateQuery,
  PutCommand,
  TransactWriteCommand,
  UpdateCommand,
} from "@aws-sdk/lib-dynamodb";

const TableName = "node";
const client = new DynamoDBClient({});
const documents = DynamoDBDocumentClient.from(client);
let StreamArn;

before(async () => {
  const created = await client.send(
    new CreateTableCommand({
      TableName,
      BillingMode: "PAY_PER_REQUEST",
      KeySchema: [
        { AttributeName: "p", KeyType: "HASH" },
        { AttributeName: "s", KeyType: "RANGE" },
      ],
      AttributeDefinitions: [
        { AttributeName: "p", AttributeType: "S" },
        { AttributeName: "s", AttributeType: "N" },
      ],
      StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_IMAGE" },
    }),
  );
  StreamArn = created.TableDescription.LatestStreamArn;
  await waitUntilTableExists({ client, minDelay: 1, maxWaitTime: 10 }, { TableName });
});

after(async () => {
  await client.send(new DeleteTableCommand({ TableName }));
  await waitUntilTableNotExists({ client, minDelay: 1, maxWaitTime: 10 }, { TableName });
});

test("documents come back", async () => {
  const Item = { p: "doc", s: 1, list: [1, "two", null, true], map: { deep: { er: 1.5 } }, set: new Set(["a", "b"]), bytes: new Uint8Array([0, 255]) };
  await documents.send(new PutCommand({ TableName, Item }));
  const found = await documents.send(new GetCommand({ TableName, Key: { p: "doc", s: 1 }, ConsistentRead: true }));
  assert.deepEqual(found.Item, Item);
});

test("an update returns what it made", async () => {
  const updated = await documents.send(
    new UpdateCommand({
      TableName,
      Key: { p: "count", s: 1 },
      UpdateExpression: "ADD #n :one",
      ExpressionAttributeNames: { "#n": "n" },
      ExpressionAttributeValues: { ":one": 1 },
      ReturnValues: "UPDATED_NEW",
    }),
  );
  assert.deepEqual(updated.Attributes, { n: 1 });
});

test("a query is paginated", async () => {
  for (let start = 0; start < 50; start += 25) {
    const writes = Array.from({ length: 25 }, (_, index) => ({ PutRequest: { Item: { p: "many", s: start + index } } }));
    const { UnprocessedItems } = await documents.send(new BatchWriteCommand({ RequestItems: { [TableName]: writes } }));
    assert.deepEqual(UnprocessedItems, {});
  }
  const seen = [];
  const query = { TableName, KeyConditionExpression: "p = :p", ExpressionAttributeValues: { ":p": "many" } };
  for await (const page of paginateQuery({ client: documents, pageSize: 7 }, query)) seen.push(...page.Items.map((item) => item.s));
  assert.deepEqual(seen, Array.from({ length: 50 }, (_, index) => index));
});

test("a cancelled transaction says why", async () => {
  const put = (s, ConditionExpression) => ({ Put: { TableName, Item: { p: "tx", s }, ConditionExpression } });
  await assert.rejects(
    documents.send(new TransactWriteCommand({ TransactItems: [put(1), put(2, "attribute_exists(p)")] })),
    (error) => error.name === "TransactionCanceledException" && error.CancellationReasons[1].Code === "ConditionalCheckFailed",
  );
  const { Item } = await documents.send(new GetCommand({ TableName, Key: { p: "tx", s: 1 } }));
  assert.equal(Item, undefined);
});

test("errors are the modelled ones", async () => {
  await assert.rejects(documents.send(new GetCommand({ TableName: "nowhere", Key: { p: "a" } })), { name: "ResourceNotFoundException" });
  await assert.rejects(documents.send(new GetCommand({ TableName, Key: { p: "a" } })), { name: "ValidationException" });
});

test("PartiQL", async () => {
  await documents.send(new ExecuteStatementCommand({ Statement: `INSERT INTO ${TableName} VALUE {'p': 'sql', 's': ?}`, Parameters: [7] }));
  const { Items } = await documents.send(new ExecuteStatementCommand({ Statement: `SELECT * FROM ${TableName} WHERE p = 'sql'` }));
  assert.deepEqual(Items, [{ p: "sql", s: 7 }]);
});

test("the stream tells of every write", async () => {
  await documents.send(new PutCommand({ TableName, Item: { p: "streamed", s: 1 } }));
  const streams = new DynamoDBStreamsClient({ endpoint: process.env.AWS_ENDPOINT_URL_DYNAMODB });
  const { StreamDescription } = await streams.send(new DescribeStreamCommand({ StreamArn }));
  const keys = [];
  for (const { ShardId } of StreamDescription.Shards) {
    const { ShardIterator } = await streams.send(new GetShardIteratorCommand({ StreamArn, ShardId, ShardIteratorType: "TRIM_HORIZON" }));
    const { Records } = await streams.send(new GetRecordsCommand({ ShardIterator }));
    keys.push(...Records.map((record) => record.dynamodb.Keys.p.S));
  }
  assert.ok(keys.includes("streamed"));
});

test("tables are listed", async () => {
  const names = [];
  for await (const page of paginateListTables({ client, pageSize: 1 }, {})) names.push(...page.TableNames);
  assert.ok(names.includes(TableName));
});
