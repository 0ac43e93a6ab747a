// A table with a global index over section and view count, as published. Through the AWS SDK for JavaScript v3.
import { CreateTableCommand, DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { BatchWriteCommand, DynamoDBDocumentClient, QueryCommand, UpdateCommand } from "@aws-sdk/lib-dynamodb";

const TABLE = "news";
const INDEX = "section-view_count-index";
const BATCH = 25;

export class DynamoDbStore {
  constructor(server) {
    const credentials = { accessKeyId: "news", secretAccessKey: "news" };
    this.client = new DynamoDBClient({ endpoint: server.dynamodbUrl, region: "us-west-1", credentials });
    this.documents = DynamoDBDocumentClient.from(this.client);
  }

  async load(articles) {
    await this.client.send(
      new CreateTableCommand({
        TableName: TABLE,
        BillingMode: "PAY_PER_REQUEST",
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
        AttributeDefinitions: [
          { AttributeName: "id", AttributeType: "S" },
          { AttributeName: "section", AttributeType: "S" },
          { AttributeName: "view_count", AttributeType: "N" },
        ],
        GlobalSecondaryIndexes: [
          {
            IndexName: INDEX,
            KeySchema: [
              { AttributeName: "section", KeyType: "HASH" },
              { AttributeName: "view_count", KeyType: "RANGE" },
            ],
            Projection: { ProjectionType: "ALL" },
          },
        ],
      }),
    );
    for (let start = 0; start < articles.length; start += BATCH) {
      const puts = articles.slice(start, start + BATCH).map((Item) => ({ PutRequest: { Item } }));
      await this.documents.send(new BatchWriteCommand({ RequestItems: { [TABLE]: puts } }));
    }
  }

  async top(section) {
    const told = await this.documents.send(
      new QueryCommand({
        TableName: TABLE,
        IndexName: INDEX,
        KeyConditionExpression: "#section = :section",
        ExpressionAttributeNames: { "#section": "section" },
        ExpressionAttributeValues: { ":section": section },
        ScanIndexForward: false,
        Limit: 10,
      }),
    );
    return told.Items;
  }

  async rescore(article, views) {
    await this.documents.send(
      new UpdateCommand({ TableName: TABLE, Key: { id: article.id }, UpdateExpression: "set view_count = :r", ExpressionAttributeValues: { ":r": views } }),
    );
  }

  async close() {
    this.client.destroy();
  }
}
