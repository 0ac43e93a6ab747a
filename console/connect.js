// How to connect: snippets that work as they are pasted, for each client and each database.

import { html, useState } from "./html.js";
import { Copy, Tabs } from "./ui.js";

/** What stands where a secret belongs. */
function secretsOf(session, database) {
  if (session.development && database === "default") return { password: "", rest: "dev", fauna: "secret", key: "any", secret: "any" };
  if (database === "default") return { password: "ROOT_KEY", rest: "ROOT_KEY", fauna: "ROOT_KEY", key: "ACCESS_KEY_ID", secret: "SECRET_ACCESS_KEY" };
  return { password: "TOKEN", rest: "TOKEN", fauna: "FAUNA_KEY", key: "ACCESS_KEY_ID", secret: "SECRET_ACCESS_KEY" };
}

function redisSnippets(endpoint, { password }) {
  const [host, port] = endpoint.replace(/^.*[/@]/, "").split(":");
  const url = `redis://${password && `default:${password}@`}${host}:${port}`;
  return {
    "redis-cli": `redis-cli -u ${url} PING`,
    "redis-py": `# pip install redis\nimport redis\n\nr = redis.Redis.from_url("${url}", decode_responses=True)\nr.set("greeting", "hello")\nprint(r.get("greeting"))`,
    ioredis: `// npm install ioredis\nimport Redis from "ioredis";\n\nconst redis = new Redis("${url}");\nawait redis.set("greeting", "hello");\nconsole.log(await redis.get("greeting"));\nredis.disconnect();`,
    "go-redis": `// go get github.com/redis/go-redis/v9\npackage main\n\nimport (\n\t"context"\n\t"fmt"\n\n\t"github.com/redis/go-redis/v9"\n)\n\nfunc main() {\n\toptions, err := redis.ParseURL("${url}")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tclient := redis.NewClient(options)\n\tctx := context.Background()\n\tclient.Set(ctx, "greeting", "hello", 0)\n\tfmt.Println(client.Get(ctx, "greeting").Result())\n}`,
    Jedis: `// redis.clients:jedis\nimport redis.clients.jedis.JedisPooled;\n\nclass Main {\n  public static void main(String[] arguments) {\n    try (var redis = new JedisPooled("${url}")) {\n      redis.set("greeting", "hello");\n      System.out.println(redis.get("greeting"));\n    }\n  }\n}`,
  };
}

function restSnippets(url, { rest }) {
  return {
    curl: `curl -H "Authorization: Bearer ${rest}" ${url}/set/greeting/hello`,
    "@upstash/redis": `// npm install @upstash/redis\nimport { Redis } from "@upstash/redis";\n\nconst redis = new Redis({ url: "${url}", token: "${rest}" });\nawait redis.set("greeting", "hello");\nconsole.log(await redis.get("greeting"));`,
    environment: `UPSTASH_REDIS_REST_URL=${url}\nUPSTASH_REDIS_REST_TOKEN=${rest}`,
  };
}

function faunaSnippets(endpoint, { fauna }) {
  const { hostname, port, protocol, origin } = new URL(endpoint);
  const scheme = protocol.slice(0, -1);
  return {
    JavaScript: `// npm install faunadb\nimport faunadb from "faunadb";\n\nconst client = new faunadb.Client({ secret: "${fauna}", domain: "${hostname}", port: ${port}, scheme: "${scheme}" });\nconsole.log(await client.query(faunadb.query.Add(1, 2)));\nclient.close();`,
    Python: `# pip install faunadb\nfrom faunadb import query as q\nfrom faunadb.client import FaunaClient\n\nclient = FaunaClient(secret="${fauna}", domain="${hostname}", port=${port}, scheme="${scheme}")\nprint(client.query(q.add(1, 2)))`,
    Go: `// go get github.com/fauna/faunadb-go/v5\npackage main\n\nimport (\n\t"fmt"\n\n\tf "github.com/fauna/faunadb-go/v5/faunadb"\n)\n\nfunc main() {\n\tclient := f.NewFaunaClient("${fauna}", f.Endpoint("${origin}"))\n\tfmt.Println(client.Query(f.Add(1, 2)))\n}`,
    curl: `curl -u ${fauna}: ${origin}/ -d '{"add": [1, 2]}'`,
  };
}

function dynamoSnippets(endpoint, { key, secret }) {
  return {
    "AWS CLI": `AWS_ACCESS_KEY_ID=${key} AWS_SECRET_ACCESS_KEY=${secret} aws dynamodb list-tables --region us-east-1 --endpoint-url ${endpoint}`,
    boto3: `# pip install boto3\nimport boto3\n\nclient = boto3.client("dynamodb", endpoint_url="${endpoint}", region_name="us-east-1", aws_access_key_id="${key}", aws_secret_access_key="${secret}")\nprint(client.list_tables()["TableNames"])`,
    JavaScript: `// npm install @aws-sdk/client-dynamodb\nimport { DynamoDBClient, ListTablesCommand } from "@aws-sdk/client-dynamodb";\n\nconst client = new DynamoDBClient({ endpoint: "${endpoint}", region: "us-east-1", credentials: { accessKeyId: "${key}", secretAccessKey: "${secret}" } });\nconsole.log(await client.send(new ListTablesCommand({})));`,
    Java: `// software.amazon.awssdk:dynamodb\nimport java.net.URI;\nimport software.amazon.awssdk.auth.credentials.*;\nimport software.amazon.awssdk.regions.Region;\nimport software.amazon.awssdk.services.dynamodb.DynamoDbClient;\n\nclass Main {\n  public static void main(String[] arguments) {\n    var credentials = AwsBasicCredentials.create("${key}", "${secret}");\n    try (var client = DynamoDbClient.builder().endpointOverride(URI.create("${endpoint}")).region(Region.US_EAST_1)\n        .credentialsProvider(StaticCredentialsProvider.create(credentials)).build()) {\n      System.out.println(client.listTables().tableNames());\n    }\n  }\n}`,
  };
}

function keyvalueSnippets(line, database) {
  const own = database === "default" ? line.replace("<root key>", "ROOT_KEY") : line.replace(/:[^@]*@/, ":TOKEN@");
  return {
    "cluster file": own,
    Python: `# The binding of FoundationDB, with libfdb_c.so of "cargo build --release -p quartet-fdb-c"\nimport fdb\n\nfdb.api_version(710)\nopen("fdb.cluster", "w").write("${own}\\n")\ndb = fdb.open("fdb.cluster")\ndb[b"greeting"] = b"hello"\nprint(db[b"greeting"])`,
  };
}

function Part({ title, snippets }) {
  const names = Object.keys(snippets);
  const [chosen, choose] = useState(names[0]);
  return html`<section class="panel"><h2>${title}</h2>
    <${Tabs} label=${title} names=${names} chosen=${chosen} onChoose=${choose} />
    <pre class="snippet">${snippets[chosen]}</pre><${Copy} text=${snippets[chosen]} /></section>`;
}

export function Connect({ session, database }) {
  const { endpoints } = session;
  const secrets = secretsOf(session, database);
  const isOpen = session.development && database === "default";
  return html`<h2>Connect to ${database}</h2>
    ${!isOpen && html`<p class="dim">Put what you were given in the place of the words in capitals${database === "default" ? "" : "; whoever made the database saw them once"}.</p>`}
    <div class="cards wide">
      ${endpoints.redis && html`<${Part} title="Redis" snippets=${redisSnippets(endpoints.redis, secrets)} />`}
      <${Part} title="Redis over REST" snippets=${restSnippets(location.origin, secrets)} />
      ${endpoints.fauna && html`<${Part} title="FaunaDB" snippets=${faunaSnippets(endpoints.fauna, secrets)} />`}
      ${endpoints.dynamodb && html`<${Part} title="DynamoDB" snippets=${dynamoSnippets(endpoints.dynamodb, secrets)} />`}
      ${endpoints.keyvalue && html`<${Part} title="Key-value" snippets=${keyvalueSnippets(endpoints.keyvalue, database)} />`}
    </div>`;
}
