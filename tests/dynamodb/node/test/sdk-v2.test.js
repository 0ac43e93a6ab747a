// The AWS SDK for JavaScript v2, whose document client turns sets, bytes and legacy parameters its own way. It checks the CRC32 of
// every answer. The endpoint comes from the environment (`python -m harness -- npm test`).
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import AWS from "aws-sdk";

const TableName = "node-v2";
const options = { endpoint: process.env.AWS_ENDPOINT_URL_DYNAMODB, region: "us-east-1", maxRetries: 0 };
const client = new AWS.DynamoDB(options);
const documents = new AWS.DynamoDB.DocumentClient({ service: client });
const streams = new AWS.DynamoDBStreams(options);
let StreamArn;

before(async () => {
  const created = await client
    .createTable({
      TableName,
      ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 5 },
      KeySchema: [
        { AttributeName: "p", KeyType: "HASH" },
        { AttributeName: "s", KeyType: "RANGE" },
      ],
      AttributeDefinitions: [
        { AttributeName: "p", AttributeType: "S" },
        { AttributeName: "s", AttributeType: "N" },
      ],
      StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
    })
    .promise();
  StreamArn = created.TableDescription.LatestStreamArn;
  const { Table } = await client.waitFor("tableExists", { TableName, $waiter: { delay: 1, maxAttempts: 60 } }).promise();
  assert.ok(Table.CreationDateTime instanceof Date);
});

after(async () => {
  await client.deleteTable({ TableName }).promise();
  await client.waitFor("tableNotExists", { TableName, $waiter: { delay: 1, maxAttempts: 60 } }).promise();
});

test("v2: documents come back", async () => {
  const set = documents.createSet(["a", "b"]);
  const Item = { p: "doc", s: 1, list: [1, "two", null, true, ""], map: { deep: { er: 1.5 } }, set, bytes: Buffer.from([0, 255]) };
  await documents.put({ TableName, Item }).promise();
  const found = (await documents.get({ TableName, Key: { p: "doc", s: 1 }, ConsistentRead: true }).promise()).Item;
  assert.deepEqual([...found.set.values].sort(), ["a", "b"]);
  assert.deepEqual([...found.bytes], [0, 255]);
  assert.deepEqual([found.list, found.map], [Item.list, Item.map]);
});

test("v2: legacy parameters", async () => {
  const Key = { p: "legacy", s: 1 };
  const update = { TableName, Key, AttributeUpdates: { n: { Action: "ADD", Value: 2 } }, ReturnValues: "ALL_NEW" };
  assert.deepEqual((await documents.update(update).promise()).Attributes, { ...Key, n: 2 });
  const expected = { n: { ComparisonOperator: "GT", AttributeValueList: [5] } };
  await assert.rejects(documents.put({ TableName, Item: Key, Expected: expected }).promise(), { code: "ConditionalCheckFailedException", statusCode: 400 });
  const KeyConditions = { p: { ComparisonOperator: "EQ", AttributeValueList: ["legacy"] } };
  const QueryFilter = { n: { ComparisonOperator: "BETWEEN", AttributeValueList: [1, 3] } };
  const page = await documents.query({ TableName, KeyConditions, QueryFilter, AttributesToGet: ["n"] }).promise();
  assert.deepEqual([page.Items, page.Count, page.ScannedCount], [[{ n: 2 }], 1, 1]);
});

test("v2: pages and batches", async () => {
  const writes = Array.from({ length: 25 }, (_, s) => ({ PutRequest: { Item: { p: "many", s } } }));
  assert.deepEqual((await documents.batchWrite({ RequestItems: { [TableName]: writes } }).promise()).UnprocessedItems, {});
  const seen = [];
  const query = { TableName, KeyConditionExpression: "p = :p", ExpressionAttributeValues: { ":p": "many" }, Limit: 7 };
  await new Promise((resolve, reject) =>
    documents.query(query).eachPage((error, page) => {
      if (error) return reject(error);
      if (page === null) return resolve();
      seen.push(...page.Items.map((item) => item.s));
    }),
  );
  assert.deepEqual(seen, Array.from({ length: 25 }, (_, index) => index));
  const Keys = seen.map((s) => ({ p: "many", s }));
  const got = await documents.batchGet({ RequestItems: { [TableName]: { Keys } }, ReturnConsumedCapacity: "TOTAL" }).promise();
  assert.deepEqual([got.Responses[TableName].length, got.ConsumedCapacity[0].CapacityUnits, got.UnprocessedKeys], [25, 12.5, {}]);
});

test("v2: a cancelled transaction, and what a failed condition found", async () => {
  const condition = { ConditionExpression: "attribute_not_exists(p)", ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
  const put = (s, more) => ({ Put: { TableName, Item: { p: "tx", s }, ...more } });
  await documents.put({ TableName, Item: { p: "tx", s: 2 } }).promise();
  let body;
  const request = documents.transactWrite({ TransactItems: [put(1), put(2, condition)] });
  request.on("extractError", (response) => (body = JSON.parse(response.httpResponse.body.toString())));
  await assert.rejects(request.promise(), { code: "TransactionCanceledException" });
  assert.deepEqual(
    body.CancellationReasons.map(({ Code, Item }) => [Code, Item]),
    [
      ["None", undefined],
      ["ConditionalCheckFailed", { p: { S: "tx" }, s: { N: "2" } }],
    ],
  );
});

test("v2: the stream tells old and new", async () => {
  await documents.put({ TableName, Item: { p: "streamed", s: 1, v: 1 } }).promise();
  await documents.put({ TableName, Item: { p: "streamed", s: 1, v: 2 } }).promise();
  const { StreamDescription } = await streams.describeStream({ StreamArn }).promise();
  const events = [];
  for (const { ShardId } of StreamDescription.Shards) {
    const { ShardIterator } = await streams.getShardIterator({ StreamArn, ShardId, ShardIteratorType: "TRIM_HORIZON" }).promise();
    const { Records } = await streams.getRecords({ ShardIterator }).promise();
    events.push(...Records.filter(({ dynamodb }) => dynamodb.Keys.p.S === "streamed"));
  }
  const plain = AWS.DynamoDB.Converter.unmarshall;
  assert.deepEqual(
    events.map(({ eventName, dynamodb }) => [eventName, dynamodb.OldImage && plain(dynamodb.OldImage).v, plain(dynamodb.NewImage).v]),
    [
      ["INSERT", undefined, 1],
      ["MODIFY", 1, 2],
    ],
  );
});

test("v2: PartiQL, endpoint discovery and errors", async () => {
  await client.executeStatement({ Statement: `INSERT INTO "${TableName}" VALUE {'p': 'sql', 's': ?}`, Parameters: [{ N: "7" }] }).promise();
  const found = await client.executeStatement({ Statement: `SELECT * FROM "${TableName}" WHERE p = 'sql'` }).promise();
  assert.deepEqual(found.Items, [{ p: { S: "sql" }, s: { N: "7" } }]);
  const { Endpoints } = await client.describeEndpoints().promise();
  // A follower leads to the home's own listener.
  assert.equal(`http://${Endpoints[0].Address}` === options.endpoint, process.env.QUARTET_TEST_TARGET !== "follower");
  await assert.rejects(documents.get({ TableName: "nowhere", Key: { p: "a" } }).promise(), { code: "ResourceNotFoundException" });
});
