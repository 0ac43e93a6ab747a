// FoundationDB's Record Layer, unmodified, over the Java binding that it brings, on our libfdb_c.so: a day's work of it.
package quartet;

import static com.apple.foundationdb.record.metadata.Key.Expressions.concatenateFields;
import static com.apple.foundationdb.record.metadata.Key.Expressions.field;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.apple.foundationdb.record.FunctionNames;
import com.apple.foundationdb.record.IndexScanType;
import com.apple.foundationdb.record.IsolationLevel;
import com.apple.foundationdb.record.RecordMetaData;
import com.apple.foundationdb.record.RecordMetaDataBuilder;
import com.apple.foundationdb.record.ScanProperties;
import com.apple.foundationdb.record.TupleRange;
import com.apple.foundationdb.record.metadata.Index;
import com.apple.foundationdb.record.metadata.IndexAggregateFunction;
import com.apple.foundationdb.record.metadata.IndexTypes;
import com.apple.foundationdb.record.metadata.Key;
import com.apple.foundationdb.record.metadata.expressions.GroupingKeyExpression;
import com.apple.foundationdb.record.metadata.expressions.VersionKeyExpression;
import com.apple.foundationdb.record.provider.foundationdb.FDBDatabase;
import com.apple.foundationdb.record.provider.foundationdb.FDBDatabaseFactory;
import com.apple.foundationdb.record.provider.foundationdb.FDBQueriedRecord;
import com.apple.foundationdb.record.provider.foundationdb.FDBRecordContext;
import com.apple.foundationdb.record.provider.foundationdb.FDBRecordStore;
import com.apple.foundationdb.record.provider.foundationdb.FDBStoredRecord;
import com.apple.foundationdb.record.provider.foundationdb.OnlineIndexer;
import com.apple.foundationdb.record.query.RecordQuery;
import com.apple.foundationdb.record.query.expressions.Query;
import com.apple.foundationdb.record.query.expressions.QueryComponent;
import com.apple.foundationdb.subspace.Subspace;
import com.apple.foundationdb.tuple.Tuple;
import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.Label;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.Type;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

/** The steps of the day build on each other. */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class RecordLayerTest {
    private static final int ORDERS = 1000;
    private static final List<String> FLOWERS = List.of("rose", "tulip", "lily", "iris");
    private static final Subspace SPACE = new Subspace(Tuple.from("record layer"));
    private static final GroupingKeyExpression ORDERS_BY_FLOWER = new GroupingKeyExpression(field("flower"), 0);
    private static final GroupingKeyExpression QUANTITY_BY_FLOWER = field("quantity").groupBy(field("flower"));
    private static Descriptor order;
    private static FDBDatabase database;

    @BeforeAll
    static void open() throws Exception {
        DescriptorProto fields = DescriptorProto.newBuilder()
                .setName("Order")
                .addField(member("id", 1, Type.TYPE_INT64))
                .addField(member("flower", 2, Type.TYPE_STRING))
                .addField(member("price", 3, Type.TYPE_INT32))
                .addField(member("quantity", 4, Type.TYPE_INT32))
                .build();
        DescriptorProto union = DescriptorProto.newBuilder()
                .setName("RecordTypeUnion")
                .addField(member("_Order", 1, Type.TYPE_MESSAGE).toBuilder().setTypeName(".day.Order"))
                .build();
        FileDescriptorProto file = FileDescriptorProto.newBuilder()
                .setName("day.proto")
                .setPackage("day")
                .addMessageType(fields)
                .addMessageType(union)
                .build();
        order = FileDescriptor.buildFrom(file, new FileDescriptor[0]).findMessageTypeByName("Order");
        database = FDBDatabaseFactory.instance().getDatabase();
        database.run(context -> {
            context.ensureActive().clear(SPACE.range());
            return null;
        });
    }

    @AfterAll
    static void close() {
        FDBDatabaseFactory.instance().shutdown();
    }

    private static FieldDescriptorProto member(String name, int number, Type type) {
        return FieldDescriptorProto.newBuilder().setName(name).setNumber(number).setType(type).setLabel(Label.LABEL_OPTIONAL).build();
    }

    private static RecordMetaData metaData(boolean withNewIndex) {
        RecordMetaDataBuilder builder = RecordMetaData.newBuilder().setRecords(order.getFile());
        builder.setStoreRecordVersions(true);
        builder.getRecordType("Order").setPrimaryKey(field("id"));
        builder.addIndex("Order", new Index("price", field("price")));
        builder.addIndex("Order", new Index("flower and price", concatenateFields("flower", "price")));
        builder.addIndex("Order", new Index("orders by flower", ORDERS_BY_FLOWER, IndexTypes.COUNT));
        builder.addIndex("Order", new Index("quantity by flower", QUANTITY_BY_FLOWER, IndexTypes.SUM));
        builder.addIndex("Order", new Index("price rank", field("price").ungrouped(), IndexTypes.RANK));
        builder.addUniversalIndex(new Index("version", VersionKeyExpression.VERSION, IndexTypes.VERSION));
        if (withNewIndex) builder.addIndex("Order", new Index("quantity", field("quantity")));
        return builder.getRecordMetaData();
    }

    private static FDBRecordStore.Builder storeBuilder(boolean withNewIndex) {
        return FDBRecordStore.newBuilder().setMetaDataProvider(metaData(withNewIndex)).setSubspace(SPACE);
    }

    private static FDBRecordStore store(FDBRecordContext context) {
        return storeBuilder(false).setContext(context).createOrOpen();
    }

    private static Message make(long id, String flower, int price, int quantity) {
        return DynamicMessage.newBuilder(order)
                .setField(order.findFieldByName("id"), id)
                .setField(order.findFieldByName("flower"), flower)
                .setField(order.findFieldByName("price"), price)
                .setField(order.findFieldByName("quantity"), quantity)
                .build();
    }

    private static Object of(Message record, String name) {
        return record.getField(record.getDescriptorForType().findFieldByName(name));
    }

    private static Set<Object> ids(FDBRecordStore store, QueryComponent filter) {
        RecordQuery query = RecordQuery.newBuilder().setRecordType("Order").setFilter(filter).build();
        List<FDBQueriedRecord<Message>> found = store.executeQuery(query).asList().join();
        return found.stream().map(record -> of(record.getRecord(), "id")).collect(Collectors.toSet());
    }

    private static long aggregate(FDBRecordStore store, IndexAggregateFunction aggregate, String flower) {
        Key.Evaluated group = Key.Evaluated.scalar(flower);
        return store.evaluateAggregateFunction(List.of("Order"), aggregate, group, IsolationLevel.SERIALIZABLE).join().getLong(0);
    }

    private static long orders(FDBRecordStore store, String flower) {
        return aggregate(store, new IndexAggregateFunction(FunctionNames.COUNT, ORDERS_BY_FLOWER, "orders by flower"), flower);
    }

    private static long quantity(FDBRecordStore store, String flower) {
        return aggregate(store, new IndexAggregateFunction(FunctionNames.SUM, QUANTITY_BY_FLOWER, "quantity by flower"), flower);
    }

    @Test
    @Order(1)
    void aThousandRecordsAreSaved() {
        for (int first = 0; first < ORDERS; first += 100) {
            int batch = first;
            database.run(context -> {
                FDBRecordStore store = store(context);
                for (int id = batch; id < batch + 100; id++) store.saveRecord(make(id, FLOWERS.get(id % 4), id / 4, id % 7));
                return null;
            });
        }
        database.run(context -> {
            FDBRecordStore store = store(context);
            FDBStoredRecord<Message> record = store.loadRecord(Tuple.from(617L));
            assertEquals("tulip", of(record.getRecord(), "flower"));
            assertTrue(record.hasVersion() && record.getVersion().isComplete());
            assertNull(store.loadRecord(Tuple.from(5000L)));
            int count = store.scanRecords(null, ScanProperties.FORWARD_SCAN).getCount().join();
            assertEquals(ORDERS, count);
            return null;
        });
    }

    @Test
    @Order(2)
    void queriesUseIndexes() {
        database.run(context -> {
            FDBRecordStore store = store(context);
            QueryComponent filter = Query.and(Query.field("flower").equalsValue("lily"), Query.field("price").lessThan(3));
            RecordQuery query = RecordQuery.newBuilder().setRecordType("Order").setFilter(filter).build();
            assertTrue(store.planQuery(query).getUsedIndexes().contains("flower and price"));
            assertEquals(Set.of(2L, 6L, 10L), ids(store, filter));
            assertEquals(Set.of(400L, 401L, 402L, 403L), ids(store, Query.field("price").equalsValue(100)));
            assertEquals(8, ids(store, Query.and(Query.field("price").greaterThan(10), Query.field("price").lessThanOrEquals(12))).size());
            QueryComponent either = Query.or(Query.field("price").equalsValue(0), Query.field("price").equalsValue(249));
            assertEquals(8, ids(store, either).size());
            assertEquals(Set.of(7L, 21L), ids(store, Query.and(Query.field("quantity").equalsValue(0), Query.field("price").lessThan(6),
                    Query.not(Query.field("flower").equalsValue("rose")), Query.not(Query.field("flower").equalsValue("lily")))));
            return null;
        });
    }

    @Test
    @Order(3)
    void ranksAndVersionsAreInTheirOrder() {
        database.run(context -> {
            FDBRecordStore store = store(context);
            Index rank = store.getRecordMetaData().getIndex("price rank");
            var third = store.scanIndex(rank, IndexScanType.BY_RANK, TupleRange.allOf(Tuple.from(2L)), null, ScanProperties.FORWARD_SCAN);
            assertTrue(third.asList().join().stream().allMatch(entry -> entry.getKey().getLong(0) == 2));
            Index version = store.getRecordMetaData().getIndex("version");
            var written = store.scanIndex(version, IndexScanType.BY_VALUE, TupleRange.ALL, null, ScanProperties.FORWARD_SCAN).asList().join();
            assertEquals(ORDERS, written.size());
            List<Long> primaryKeys = written.stream().map(entry -> entry.getKey().getLong(1)).collect(Collectors.toList());
            assertEquals(primaryKeys.stream().sorted().collect(Collectors.toList()), primaryKeys);
            return null;
        });
    }

    @Test
    @Order(4)
    void aggregatesFollowUpdatesAndDeletions() {
        long before = database.run(context -> quantity(store(context), "rose"));
        long counted = database.run(context -> orders(store(context), "rose"));
        assertEquals(250, counted);
        database.run(context -> {
            FDBRecordStore store = store(context);
            store.saveRecord(make(0, "rose", 9000, 100));
            assertTrue(store.deleteRecord(Tuple.from(8L)));
            assertFalse(store.deleteRecord(Tuple.from(8L)));
            return null;
        });
        database.run(context -> {
            FDBRecordStore store = store(context);
            assertEquals(249L, orders(store, "rose"));
            assertEquals(before + 100 - 8 % 7, quantity(store, "rose"));
            assertEquals(Set.of(0L), ids(store, Query.field("price").greaterThan(8000)));
            assertEquals(Set.of(1L, 2L, 3L), ids(store, Query.field("price").equalsValue(0)));
            return null;
        });
    }

    @Test
    @Order(5)
    void anIndexIsBuiltWhileTheStoreIsThere() {
        database.run(context -> {
            FDBRecordStore store = storeBuilder(true).setContext(context).createOrOpen();
            assertFalse(store.isIndexReadable("quantity"));
            return null;
        });
        try (OnlineIndexer indexer = OnlineIndexer.newBuilder()
                .setDatabase(database)
                .setMetaData(metaData(true))
                .setSubspace(SPACE)
                .setIndex("quantity")
                .setLimit(90)
                .build()) {
            indexer.buildIndex();
        }
        database.run(context -> {
            FDBRecordStore store = storeBuilder(true).setContext(context).createOrOpen();
            assertTrue(store.isIndexReadable("quantity"));
            RecordQuery query = RecordQuery.newBuilder().setRecordType("Order").setFilter(Query.field("quantity").equalsValue(6)).build();
            assertTrue(store.planQuery(query).getUsedIndexes().contains("quantity"));
            assertEquals(142, store.executeQuery(query).getCount().join());
            assertNotNull(store.loadRecord(Tuple.from(6L)));
            return null;
        });
    }

    @Test
    @Order(6)
    void allRecordsAreDeleted() {
        database.run(context -> {
            FDBRecordStore store = storeBuilder(true).setContext(context).createOrOpen();
            store.deleteAllRecords();
            return null;
        });
        database.run(context -> {
            FDBRecordStore store = storeBuilder(true).setContext(context).createOrOpen();
            assertEquals(0, store.scanRecords(null, ScanProperties.FORWARD_SCAN).getCount().join());
            return null;
        });
    }
}
