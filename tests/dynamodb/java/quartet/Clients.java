package quartet;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeDefinition;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.BillingMode;
import software.amazon.awssdk.services.dynamodb.model.CreateTableRequest;
import software.amazon.awssdk.services.dynamodb.model.KeySchemaElement;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;
import software.amazon.awssdk.services.dynamodb.streams.DynamoDbStreamsClient;

/** The clients of all tests, made as an application makes them: endpoint, region and key come from the environment. */
final class Clients {
    static final DynamoDbClient DATABASE = DynamoDbClient.create();
    static final DynamoDbStreamsClient STREAMS = DynamoDbStreamsClient.create();
    private static final AtomicInteger TABLES = new AtomicInteger();

    private Clients() {}

    /** A table of a hash key `p` and a range key `s`, as a request that a test may add to. */
    static CreateTableRequest.Builder described(String kind) {
        return CreateTableRequest.builder()
                .tableName("java-" + kind + "-" + TABLES.incrementAndGet())
                .billingMode(BillingMode.PAY_PER_REQUEST)
                .keySchema(key("p", KeyType.HASH), key("s", KeyType.RANGE))
                .attributeDefinitions(attribute("p", ScalarAttributeType.S), attribute("s", ScalarAttributeType.N));
    }

    /** Makes the table and waits until it is active. Answers its name. */
    static String create(CreateTableRequest request) {
        DATABASE.createTable(request);
        DATABASE.waiter().waitUntilTableExists(describe -> describe.tableName(request.tableName()));
        return request.tableName();
    }

    static String table(String kind) {
        return create(described(kind).build());
    }

    static KeySchemaElement key(String name, KeyType type) {
        return KeySchemaElement.builder().attributeName(name).keyType(type).build();
    }

    static AttributeDefinition attribute(String name, ScalarAttributeType type) {
        return AttributeDefinition.builder().attributeName(name).attributeType(type).build();
    }

    static AttributeValue text(String value) {
        return AttributeValue.fromS(value);
    }

    static AttributeValue number(long value) {
        return AttributeValue.fromN(Long.toString(value));
    }

    static long number(Map<String, AttributeValue> item, String name) {
        return Long.parseLong(item.get(name).n());
    }

    static Map<String, AttributeValue> key(String p, long s) {
        return Map.of("p", text(p), "s", number(s));
    }

    /** An item of the key and one more attribute. */
    static Map<String, AttributeValue> item(String p, long s, String name, AttributeValue value) {
        Map<String, AttributeValue> item = new HashMap<>(key(p, s));
        item.put(name, value);
        return item;
    }

    static void put(String table, Map<String, AttributeValue> item) {
        DATABASE.putItem(put -> put.tableName(table).item(item));
    }

    static Map<String, AttributeValue> get(String table, String p, long s) {
        return DATABASE.getItem(get -> get.tableName(table).key(key(p, s)).consistentRead(true)).item();
    }

    static List<Map<String, AttributeValue>> all(String table) {
        return DATABASE.scanPaginator(scan -> scan.tableName(table)).items().stream().toList();
    }
}
