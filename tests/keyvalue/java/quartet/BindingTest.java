// FoundationDB's Java binding, unmodified, on our libfdb_c.so.
package quartet;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.apple.foundationdb.Database;
import com.apple.foundationdb.FDB;
import com.apple.foundationdb.FDBException;
import com.apple.foundationdb.KeySelector;
import com.apple.foundationdb.MutationType;
import com.apple.foundationdb.Range;
import com.apple.foundationdb.StreamingMode;
import com.apple.foundationdb.Transaction;
import com.apple.foundationdb.directory.DirectoryLayer;
import com.apple.foundationdb.subspace.Subspace;
import com.apple.foundationdb.tuple.Tuple;
import com.apple.foundationdb.tuple.Versionstamp;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class BindingTest {
    private static final int CONFLICT = 1020;
    private static final byte[] ONE = {1, 0, 0, 0, 0, 0, 0, 0};
    private static final Subspace SPACE = new Subspace(Tuple.from("java"));
    private static Database database;

    @BeforeAll
    static void open() {
        database = FDB.selectAPIVersion(740).open();
    }

    @AfterAll
    static void close() {
        database.close();
    }

    @BeforeEach
    void empty() {
        database.run(tr -> {
            tr.clear(SPACE.range());
            return null;
        });
    }

    private static byte[] key(Object... items) {
        return SPACE.pack(Tuple.from(items));
    }

    @Test
    void rangesAreReadInEveryModeAndWithOwnWrites() {
        database.run(tr -> {
            for (int number = 0; number < 2000; number++) tr.set(key(number), Tuple.from(number).pack());
            tr.clear(key(1));
            assertNull(tr.get(key(1)).join());
            assertArrayEquals(key(10), tr.getKey(new KeySelector(SPACE.range().begin, false, 10)).join());
            return null;
        });
        for (StreamingMode mode : List.of(StreamingMode.ITERATOR, StreamingMode.WANT_ALL, StreamingMode.SMALL, StreamingMode.SERIAL)) {
            int count = database.read(tr -> tr.getRange(SPACE.range(), 0, false, mode).asList().join().size());
            assertEquals(1999, count, mode.name());
        }
        var last = database.read(tr -> tr.getRange(SPACE.range(), 2, true).asList().join());
        assertArrayEquals(key(1998), last.get(1).getKey());
    }

    @Test
    void ofTwoThatReadWhatTheOtherWritesOneIsRefused() {
        try (Transaction first = database.createTransaction(); Transaction second = database.createTransaction()) {
            first.get(key("a")).join();
            second.get(key("b")).join();
            first.set(key("b"), ONE);
            second.set(key("a"), ONE);
            first.commit().join();
            var refused = assertThrows(CompletionException.class, () -> second.commit().join());
            assertEquals(CONFLICT, ((FDBException) refused.getCause()).getCode());
        }
    }

    @Test
    void concurrentTransactionsAreAllCounted() {
        List<CompletableFuture<Void>> running = new ArrayList<>();
        for (int number = 0; number < 50; number++) {
            running.add(database.runAsync(tr -> tr.get(key("read")).thenAccept(before -> {
                long count = before == null ? 0 : Tuple.fromBytes(before).getLong(0);
                tr.set(key("read"), Tuple.from(count + 1).pack());
                tr.mutate(MutationType.ADD, key("added"), ONE);
            })));
        }
        running.forEach(CompletableFuture::join);
        byte[][] counts = database.read(tr -> new byte[][] {tr.get(key("read")).join(), tr.get(key("added")).join()});
        assertEquals(50, Tuple.fromBytes(counts[0]).getLong(0));
        assertEquals(50, counts[1][0]);
    }

    @Test
    void watchesAndVersionstamps() {
        CompletableFuture<Void> watch = database.run(tr -> tr.watch(key("watched")));
        assertFalse(watch.isDone());
        CompletableFuture<byte[]> stamp = database.run(tr -> {
            tr.set(key("watched"), ONE);
            tr.mutate(
                    MutationType.SET_VERSIONSTAMPED_KEY,
                    SPACE.packWithVersionstamp(Tuple.from("stamped", Versionstamp.incomplete(3))),
                    ONE);
            return tr.getVersionstamp();
        });
        watch.join();
        var rows = database.read(tr -> tr.getRange(SPACE.range(Tuple.from("stamped"))).asList().join());
        Versionstamp stored = SPACE.unpack(rows.get(0).getKey()).getVersionstamp(1);
        assertArrayEquals(stamp.join(), stored.getTransactionVersion());
        assertEquals(3, stored.getUserVersion());
    }

    @Test
    void directoriesAreMadeAndMoved() {
        DirectoryLayer directories = new DirectoryLayer(new Subspace(key("nodes")), new Subspace(key("content")));
        var made = directories.createOrOpen(database, List.of("users")).join();
        database.run(tr -> {
            tr.set(made.pack("name"), ONE);
            return null;
        });
        var moved = directories.move(database, List.of("users"), List.of("people")).join();
        assertArrayEquals(ONE, database.read(tr -> tr.get(moved.pack("name")).join()));
        assertEquals(List.of("people"), directories.list(database).join());
    }

    @Test
    void sizesAndBoundaries() {
        database.run(tr -> {
            for (int number = 0; number < 100; number++) tr.set(key(number), new byte[1000]);
            return null;
        });
        Range range = SPACE.range();
        long bytes = database.read(tr -> tr.getEstimatedRangeSizeBytes(range.begin, range.end).join());
        assertEquals(100_000, bytes, 10_000);
        int points = database.read(tr -> tr.getRangeSplitPoints(range.begin, range.end, 25_000).join().getKeys().size());
        assertEquals(5, points, 1);
    }
}
