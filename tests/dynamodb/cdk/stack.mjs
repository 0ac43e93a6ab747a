// The stack that `template.json` was synthesized from, with aws-cdk-lib 2.276.0. Anew, in a folder where `npm install aws-cdk-lib@2.276.0 constructs` was run:
//
//     node stack.mjs && jq --indent 1 "{Resources}" cdk.out/shop.template.json > template.json
import { App, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as dynamodb from "aws-cdk-lib/aws-dynamodb";
import * as iam from "aws-cdk-lib/aws-iam";

const { AttributeType, Billing, ProjectionType, StreamViewType } = dynamodb;
const app = new App({ outdir: "cdk.out", analyticsReporting: false, context: { "aws:cdk:disable-version-reporting": true } });
const stack = new Stack(app, "shop", { env: { region: "us-east-1", account: "000000000000" } });

// `Table` becomes AWS::DynamoDB::Table.
const orders = new dynamodb.Table(stack, "Orders", {
  tableName: "cdk-orders",
  partitionKey: { name: "customer", type: AttributeType.STRING },
  sortKey: { name: "placed", type: AttributeType.NUMBER },
  billingMode: dynamodb.BillingMode.PROVISIONED,
  readCapacity: 7,
  writeCapacity: 3,
  stream: StreamViewType.NEW_AND_OLD_IMAGES,
  timeToLiveAttribute: "gone",
  pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true, recoveryPeriodInDays: 7 },
  contributorInsightsSpecification: { enabled: true },
  tableClass: dynamodb.TableClass.STANDARD_INFREQUENT_ACCESS,
  encryption: dynamodb.TableEncryption.AWS_MANAGED,
  removalPolicy: RemovalPolicy.DESTROY,
});
orders.addGlobalSecondaryIndex({ indexName: "by-state", partitionKey: { name: "state", type: AttributeType.STRING }, projectionType: ProjectionType.INCLUDE, nonKeyAttributes: ["total"], readCapacity: 2, writeCapacity: 2 });
orders.addLocalSecondaryIndex({ indexName: "by-total", sortKey: { name: "total", type: AttributeType.NUMBER }, projectionType: ProjectionType.KEYS_ONLY });
orders.addToResourcePolicy(new iam.PolicyStatement({ actions: ["dynamodb:GetItem"], principals: [new iam.AccountRootPrincipal()], resources: ["*"] }));

// `TableV2` becomes AWS::DynamoDB::GlobalTable, with one replica: its own region.
new dynamodb.TableV2(stack, "Carts", {
  tableName: "cdk-carts",
  partitionKey: { name: "id", type: AttributeType.STRING },
  billing: Billing.onDemand({ maxReadRequestUnits: 400, maxWriteRequestUnits: 200 }),
  globalSecondaryIndexes: [{ indexName: "by-owner", partitionKey: { name: "owner", type: AttributeType.STRING }, warmThroughput: { readUnitsPerSecond: 13000, writeUnitsPerSecond: 5000 } }],
  dynamoStream: StreamViewType.KEYS_ONLY,
  timeToLiveAttribute: "expires",
  pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
  contributorInsightsSpecification: { enabled: true },
  warmThroughput: { readUnitsPerSecond: 13000, writeUnitsPerSecond: 5000 },
  tags: [{ key: "team", value: "shop" }],
  deletionProtection: true,
  removalPolicy: RemovalPolicy.DESTROY,
});
app.synth();
