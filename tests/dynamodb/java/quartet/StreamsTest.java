package quartet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static quartet.Clients.DATABASE;
import static quartet.Clients.STREAMS;
import static quartet.Clients.number;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.CreateTableRequest;
import software.amazon.awssdk.services.dynamodb.model.GetRecordsResponse;
import software.amazon.awssdk.services.dynamodb.model.OperationType;
import software.amazon.awssdk.services.dynamodb.model.Record;
import software.amazon.awssdk.services.dynamodb.model.Shard;
import software.amazon.awssdk.services.dynamodb.model.ShardIteratorType;
import software.amazon.awssdk.services.dynamodb.model.StreamViewType;

class StreamsTest {
    private static final long PATIENCE_NANOS = 60_000_000_000L;

    private static String streamed() {
        CreateTableRequest request = Clients.described("streamed")
                .streamSpecification(stream -> stream.streamEnabled(true).streamViewType(StreamViewType.NEW_AND_OLD_IMAGES))
                .build();
        return Clients.create(request);
    }

    /** Reads all shards from their beginning, again and again, until `complete` says so. */
    private static List<Record> consume(String table, Predicate<List<Record>> complete) throws InterruptedException {
        String arn = DATABASE.describeTable(describe -> describe.tableName(table)).table().latestStreamArn();
        List<String> iterators = new ArrayList<>();
        for (Shard shard : STREAMS.describeStream(describe -> describe.streamArn(arn)).streamDescription().shards()) {
            iterators.add(STREAMS.getShardIterator(iterator -> iterator.streamArn(arn)
                            .shardId(shard.shardId())
                            .shardIteratorType(ShardIteratorType.TRIM_HORIZON))
                    .shardIterator());
        }
        List<Record> records = new ArrayList<>();
        long deadline = System.nanoTime() + PATIENCE_NANOS;
        while (!complete.test(records)) {
            assertTrue(System.nanoTime() < deadline, () -> "after a minute only " + records.size() + " records");
            for (int shard = 0; shard < iterators.size(); shard++) {
                String iterator = iterators.get(shard);
                GetRecordsResponse page = STREAMS.getRecords(get -> get.shardIterator(iterator).limit(7));
                records.addAll(page.records());
                iterators.set(shard, page.nextShardIterator());
            }
            Thread.sleep(5);
        }
        return records;
    }

    private static List<Long> valuesOf(List<Record> records, String p) {
        return records.stream()
                .map(record -> record.dynamodb().newImage())
                .filter(image -> image.get("p").s().equals(p))
                .map(image -> Clients.number(image, "n"))
                .toList();
    }

    @Test
    void severalConsumersSeeEveryChangeInOrder() throws Exception {
        String name = streamed();
        int keys = 12;
        int changes = 20;
        ExecutorService threads = Executors.newFixedThreadPool(6);
        List<Future<List<Record>>> consumers = new ArrayList<>();
        for (int consumer = 0; consumer < 3; consumer++) {
            consumers.add(threads.submit(() -> consume(name, records -> records.size() >= keys * changes)));
        }
        List<Callable<Void>> writers = new ArrayList<>();
        for (int writer = 0; writer < 3; writer++) {
            int first = writer * keys / 3;
            writers.add(() -> {
                for (int change = 0; change < changes; change++) {
                    for (int key = first; key < first + keys / 3; key++) {
                        Clients.put(name, Clients.item("key" + key, 1, "n", number(change)));
                    }
                }
                return null;
            });
        }
        for (Future<Void> writer : threads.invokeAll(writers)) {
            writer.get();
        }
        List<Long> expected = new ArrayList<>();
        for (long change = 0; change < changes; change++) {
            expected.add(change);
        }
        for (Future<List<Record>> consumer : consumers) {
            List<Record> records = consumer.get();
            assertEquals(keys * changes, records.size());
            for (int key = 0; key < keys; key++) {
                assertEquals(expected, valuesOf(records, "key" + key));
            }
        }
        threads.shutdown();
    }

    @Test
    void recordsTellWhatHappened() throws Exception {
        String name = streamed();
        Clients.put(name, Clients.item("a", 1, "n", number(1)));
        Clients.put(name, Clients.item("a", 1, "n", number(1)));
        Clients.put(name, Clients.item("a", 1, "n", number(2)));
        DATABASE.deleteItem(delete -> delete.tableName(name).key(Clients.key("a", 1)));
        List<Record> records = consume(name, found -> found.size() >= 3);
        assertEquals(
                List.of(OperationType.INSERT, OperationType.MODIFY, OperationType.REMOVE),
                records.stream().map(Record::eventName).toList());
        assertEquals(number(1), records.get(1).dynamodb().oldImage().get("n"));
        assertEquals(Clients.key("a", 1), records.get(2).dynamodb().keys());
    }

    @Test
    void expiredItemsGoWithinAMinuteAndTheStreamSaysWhoRemovedThem() throws Exception {
        String name = streamed();
        DATABASE.updateTimeToLive(update -> update.tableName(name)
                .timeToLiveSpecification(expiry -> expiry.attributeName("until").enabled(true)));
        long now = System.currentTimeMillis() / 1000;
        Map<String, AttributeValue> kept = new HashMap<>(Clients.item("kept", 1, "until", number(now + 3600)));
        Clients.put(name, kept);
        Clients.put(name, Clients.item("gone", 1, "until", number(now - 10)));
        Clients.put(name, Clients.item("soon", 1, "until", number(now + 1)));
        List<Record> removals = consume(name, records -> records.stream()
                        .filter(record -> record.eventName() == OperationType.REMOVE)
                        .count() == 2)
                .stream().filter(record -> record.eventName() == OperationType.REMOVE).toList();
        assertTrue(removals.stream().allMatch(record -> record.userIdentity().principalId().equals("dynamodb.amazonaws.com")));
        assertEquals(List.of(kept), Clients.all(name));
    }
}
