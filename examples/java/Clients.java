import com.faunadb.client.FaunaClient;
import com.faunadb.client.query.Language;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Map;
import redis.clients.jedis.Jedis;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeDefinition;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.dynamodb.model.KeySchemaElement;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;

/** Java's clients of each layer. The addresses are in the variables that other languages' clients have usually. */
public class Clients {
    public static void main(String[] arguments) throws Exception {
        redis();
        rest();
        dynamodb();
        fauna();
        System.out.println("4 passed");
        // The client of FaunaDB keeps threads of its own.
        System.exit(0);
    }

    private static void redis() {
        try (Jedis client = new Jedis(variable("REDIS_URL"))) {
            client.set("java:greeting", "hello");
            expect(client.get("java:greeting"), "hello");
        }
    }

    private static void rest() throws Exception {
        HttpRequest request =
                HttpRequest.newBuilder(URI.create(variable("UPSTASH_REDIS_REST_URL")))
                        .header("Authorization", "Bearer " + variable("UPSTASH_REDIS_REST_TOKEN"))
                        .version(HttpClient.Version.HTTP_1_1)
                        .POST(HttpRequest.BodyPublishers.ofString("[\"INCR\", \"java:visits\"]"))
                        .build();
        HttpResponse<String> response = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        expect(response.body(), "{\"result\":1}");
    }

    private static void dynamodb() {
        String table = "java-notes";
        Map<String, AttributeValue> note = Map.of("id", AttributeValue.fromS("1"));
        URI endpoint = URI.create(variable("AWS_ENDPOINT_URL_DYNAMODB"));
        try (DynamoDbClient client = DynamoDbClient.builder().endpointOverride(endpoint).region(Region.US_EAST_1).build()) {
            client.createTable(
                    request ->
                            request.tableName(table)
                                    .billingMode(BillingMode.PAY_PER_REQUEST)
                                    .keySchema(KeySchemaElement.builder().attributeName("id").keyType(KeyType.HASH).build())
                                    .attributeDefinitions(
                                            AttributeDefinition.builder().attributeName("id").attributeType(ScalarAttributeType.S).build()));
            client.putItem(request -> request.tableName(table).item(note));
            expect(client.getItem(request -> request.tableName(table).key(note)).item(), note);
        }
    }

    private static void fauna() throws Exception {
        FaunaClient client =
                FaunaClient.builder().withSecret(variable("FAUNA_SECRET")).withEndpoint(variable("FAUNA_ENDPOINT")).build();
        client.query(Language.CreateCollection(Language.Obj("name", Language.Value("java_people")))).get();
        var person = Language.Ref(Language.Collection("java_people"), "1");
        var data = Language.Obj("data", Language.Obj("name", Language.Value("Ann")));
        client.query(Language.Create(person, data)).get();
        var name = Language.Select(Language.Arr(Language.Value("data"), Language.Value("name")), Language.Get(person));
        expect(client.query(name).get().to(String.class).get(), "Ann");
    }

    private static String variable(String name) {
        return System.getenv(name);
    }

    private static void expect(Object found, Object wanted) {
        if (!wanted.equals(found)) {
            throw new AssertionError(found + " in the place of " + wanted);
        }
    }
}
