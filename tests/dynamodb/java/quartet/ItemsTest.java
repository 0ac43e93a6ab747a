package quartet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static quartet.Clients.DATABASE;
import static quartet.Clients.number;
import static quartet.Clients.text;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.core.SdkBytes;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbEnhancedClient;
import software.amazon.awssdk.enhanced.dynamodb.DynamoDbTable;
import software.amazon.awssdk.enhanced.dynamodb.Key;
import software.amazon.awssdk.enhanced.dynamodb.TableSchema;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbBean;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbPartitionKey;
import software.amazon.awssdk.enhanced.dynamodb.mapper.annotations.DynamoDbSortKey;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.BatchGetItemResponse;
import software.amazon.awssdk.services.dynamodb.model.ConditionalCheckFailedException;
import software.amazon.awssdk.services.dynamodb.model.DynamoDbException;
import software.amazon.awssdk.services.dynamodb.model.GetItemResponse;
import software.amazon.awssdk.services.dynamodb.model.KeysAndAttributes;
import software.amazon.awssdk.services.dynamodb.model.ResourceNotFoundException;
import software.amazon.awssdk.services.dynamodb.model.ReturnValue;
import software.amazon.awssdk.services.dynamodb.model.ReturnValuesOnConditionCheckFailure;
import software.amazon.awssdk.services.dynamodb.model.WriteRequest;

class ItemsTest {
    @Test
    void everyTypeComesBack() {
        String name = Clients.table("types");
        Map<String, AttributeValue> values = Map.ofEntries(
                Map.entry("p", text("ключ 🗝")),
                Map.entry("s", AttributeValue.fromN("-1234567890.123456789")),
                Map.entry("bytes", AttributeValue.fromB(SdkBytes.fromByteArray(new byte[] {0, -1, 127}))),
                Map.entry("yes", AttributeValue.fromBool(true)),
                Map.entry("nothing", AttributeValue.fromNul(true)),
                Map.entry("list", AttributeValue.fromL(List.of(number(1), text(""), AttributeValue.fromL(List.of())))),
                Map.entry("map", AttributeValue.fromM(Map.of("deep", AttributeValue.fromM(Map.of("er", number(7)))))),
                Map.entry("texts", AttributeValue.fromSs(List.of("a", "b"))),
                Map.entry("numbers", AttributeValue.fromNs(List.of("1", "2.5"))),
                Map.entry("blobs", AttributeValue.fromBs(List.of(SdkBytes.fromUtf8String("x")))));
        Clients.put(name, values);
        assertEquals(List.of(values), Clients.all(name));
    }

    @Test
    void oneOfManyConditionalWritersWins() throws Exception {
        String name = Clients.table("race");
        ExecutorService writers = Executors.newFixedThreadPool(8);
        List<Callable<Boolean>> attempts = new ArrayList<>();
        for (int writer = 0; writer < 32; writer++) {
            Map<String, AttributeValue> item = Clients.item("lock", 1, "owner", number(writer));
            attempts.add(() -> {
                try {
                    DATABASE.putItem(put -> put.tableName(name).item(item).conditionExpression("attribute_not_exists(p)"));
                    return true;
                } catch (ConditionalCheckFailedException lost) {
                    return false;
                }
            });
        }
        int won = 0;
        for (Future<Boolean> attempt : writers.invokeAll(attempts)) {
            won += attempt.get() ? 1 : 0;
        }
        writers.shutdown();
        assertEquals(1, won);
    }

    @Test
    void aVersionNumberProtectsAgainstLostUpdates() throws Exception {
        String name = Clients.table("versions");
        Clients.put(name, Map.of("p", text("doc"), "s", number(1), "version", number(0), "sum", number(0)));
        ExecutorService writers = Executors.newFixedThreadPool(4);
        List<Callable<Void>> tasks = new ArrayList<>();
        for (int writer = 0; writer < 4; writer++) {
            tasks.add(() -> {
                for (int done = 0; done < 20; ) {
                    done += addWithVersion(name) ? 1 : 0;
                }
                return null;
            });
        }
        for (Future<Void> task : writers.invokeAll(tasks)) {
            task.get();
        }
        writers.shutdown();
        Map<String, AttributeValue> item = Clients.get(name, "doc", 1);
        assertEquals(List.of(80L, 80L), List.of(Clients.number(item, "version"), Clients.number(item, "sum")));
    }

    /** Reads, computes and writes if nobody wrote in between. */
    private static boolean addWithVersion(String name) {
        Map<String, AttributeValue> before = Clients.get(name, "doc", 1);
        Map<String, AttributeValue> values = Map.of(
                ":version", before.get("version"),
                ":next", number(Clients.number(before, "version") + 1),
                ":sum", number(Clients.number(before, "sum") + 1));
        try {
            DATABASE.updateItem(update -> update.tableName(name)
                    .key(Clients.key("doc", 1))
                    .updateExpression("SET #v = :next, #s = :sum")
                    .conditionExpression("#v = :version")
                    .expressionAttributeNames(Map.of("#v", "version", "#s", "sum"))
                    .expressionAttributeValues(values));
            return true;
        } catch (ConditionalCheckFailedException lost) {
            return false;
        }
    }

    @Test
    void aFailedConditionShowsTheItem() {
        String name = Clients.table("shown");
        Map<String, AttributeValue> item = Clients.item("a", 1, "n", number(5));
        Clients.put(name, item);
        ConditionalCheckFailedException failed = assertThrows(
                ConditionalCheckFailedException.class,
                () -> DATABASE.deleteItem(delete -> delete.tableName(name)
                        .key(Clients.key("a", 1))
                        .conditionExpression("n > :n")
                        .expressionAttributeValues(Map.of(":n", number(5)))
                        .returnValuesOnConditionCheckFailure(ReturnValuesOnConditionCheckFailure.ALL_OLD)));
        assertEquals(item, failed.item());
        assertEquals("The conditional request failed", failed.awsErrorDetails().errorMessage());
    }

    @Test
    void anUpdateReturnsWhatItMade() {
        String name = Clients.table("returned");
        Map<String, AttributeValue> made = DATABASE.updateItem(update -> update.tableName(name)
                        .key(Clients.key("a", 1))
                        .updateExpression("SET l = list_append(if_not_exists(l, :none), :more) ADD n :one")
                        .expressionAttributeValues(Map.of(
                                ":none", AttributeValue.fromL(List.of()),
                                ":more", AttributeValue.fromL(List.of(text("x"))),
                                ":one", number(1)))
                        .returnValues(ReturnValue.UPDATED_NEW))
                .attributes();
        assertEquals(Map.of("l", AttributeValue.fromL(List.of(text("x"))), "n", number(1)), made);
    }

    @Test
    void errorsAreTyped() {
        String name = Clients.table("errors");
        assertThrows(ResourceNotFoundException.class, () -> Clients.get("java-nowhere", "a", 1));
        DynamoDbException invalid = assertThrows(
                DynamoDbException.class, () -> DATABASE.getItem(get -> get.tableName(name).key(Map.of("p", text("a")))));
        assertEquals("ValidationException", invalid.awsErrorDetails().errorCode());
        assertEquals("The provided key element does not match the schema", invalid.awsErrorDetails().errorMessage());
        assertTrue(invalid.requestId() != null && invalid.statusCode() == 400);
    }

    @Test
    void batchesWriteReadAndDelete() {
        String name = Clients.table("batch");
        for (int start = 0; start < 100; start += 25) {
            List<WriteRequest> writes = IntStream.range(start, start + 25)
                    .mapToObj(s -> WriteRequest.builder().putRequest(put -> put.item(Clients.key("a", s))).build())
                    .toList();
            assertEquals(Map.of(), DATABASE.batchWriteItem(batch -> batch.requestItems(Map.of(name, writes))).unprocessedItems());
        }
        List<Map<String, AttributeValue>> keys = IntStream.range(0, 100).mapToObj(s -> Clients.key("a", s)).toList();
        BatchGetItemResponse read = DATABASE.batchGetItem(
                batch -> batch.requestItems(Map.of(name, KeysAndAttributes.builder().keys(keys).build())));
        assertEquals(100, read.responses().get(name).size());
        List<WriteRequest> deletes = IntStream.range(0, 25)
                .mapToObj(s -> WriteRequest.builder().deleteRequest(delete -> delete.key(Clients.key("a", s))).build())
                .toList();
        DATABASE.batchWriteItem(batch -> batch.requestItems(Map.of(name, deletes)));
        assertEquals(75, Clients.all(name).size());
    }

    @Test
    void theAsyncClientMultiplexes() {
        String name = Clients.table("async");
        try (DynamoDbAsyncClient client = DynamoDbAsyncClient.create()) {
            List<CompletableFuture<?>> puts = new ArrayList<>();
            for (int s = 0; s < 200; s++) {
                Map<String, AttributeValue> item = Clients.key("a", s);
                puts.add(client.putItem(put -> put.tableName(name).item(item)));
            }
            CompletableFuture.allOf(puts.toArray(CompletableFuture[]::new)).join();
            List<CompletableFuture<GetItemResponse>> gets = IntStream.range(0, 200)
                    .mapToObj(s -> client.getItem(get -> get.tableName(name).key(Clients.key("a", s))))
                    .toList();
            for (int s = 0; s < 200; s++) {
                assertEquals(Clients.key("a", s), gets.get(s).join().item());
            }
        }
    }

    /** What the enhanced client maps. */
    @DynamoDbBean
    public static class Album {
        private String artist;
        private Integer year;
        private List<String> songs;

        @DynamoDbPartitionKey
        public String getArtist() {
            return artist;
        }

        public void setArtist(String artist) {
            this.artist = artist;
        }

        @DynamoDbSortKey
        public Integer getYear() {
            return year;
        }

        public void setYear(Integer year) {
            this.year = year;
        }

        public List<String> getSongs() {
            return songs;
        }

        public void setSongs(List<String> songs) {
            this.songs = songs;
        }
    }

    @Test
    void theEnhancedClientMapsBeans() {
        DynamoDbEnhancedClient client = DynamoDbEnhancedClient.builder().dynamoDbClient(DATABASE).build();
        DynamoDbTable<Album> albums = client.table("java-albums", TableSchema.fromBean(Album.class));
        albums.createTable();
        DATABASE.waiter().waitUntilTableExists(describe -> describe.tableName("java-albums"));
        Album album = new Album();
        album.setArtist("Nina");
        album.setYear(1965);
        album.setSongs(List.of("Sinnerman", "Four Women"));
        albums.putItem(album);
        Key key = Key.builder().partitionValue("Nina").sortValue(1965).build();
        assertEquals(album.getSongs(), albums.getItem(key).getSongs());
        assertEquals(1, albums.scan().items().stream().count());
        albums.deleteItem(key);
        assertEquals(null, albums.getItem(key));
    }
}
