package quartet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static quartet.Clients.DATABASE;
import static quartet.Clients.number;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.CancellationReason;
import software.amazon.awssdk.services.dynamodb.model.IdempotentParameterMismatchException;
import software.amazon.awssdk.services.dynamodb.model.TransactGetItem;
import software.amazon.awssdk.services.dynamodb.model.TransactWriteItem;
import software.amazon.awssdk.services.dynamodb.model.TransactionCanceledException;

class TransactionsTest {
    private static final int ACCOUNTS = 6;
    private static final long MONEY = 100;

    /** Adds `change` to an account, which must not fall below zero. */
    private static TransactWriteItem move(String bank, int account, long change) {
        return TransactWriteItem.builder()
                .update(update -> update.tableName(bank)
                        .key(Clients.key("account", account))
                        .updateExpression("ADD money :change")
                        .conditionExpression("money >= :least")
                        .expressionAttributeValues(Map.of(":change", number(change), ":least", number(Math.max(0, -change)))))
                .build();
    }

    private static long total(String bank) {
        List<TransactGetItem> gets = IntStream.range(0, ACCOUNTS)
                .mapToObj(account -> TransactGetItem.builder()
                        .get(get -> get.tableName(bank).key(Clients.key("account", account)))
                        .build())
                .toList();
        return DATABASE.transactGetItems(request -> request.transactItems(gets)).responses().stream()
                .mapToLong(response -> Clients.number(response.item(), "money"))
                .sum();
    }

    /** Moves money `count` times. Answers how often there was enough of it. */
    private static int transfers(String bank, int count, Random chance) {
        int moved = 0;
        for (int index = 0; index < count; index++) {
            int from = chance.nextInt(ACCOUNTS);
            int to = (from + 1 + chance.nextInt(ACCOUNTS - 1)) % ACCOUNTS;
            long amount = 1 + chance.nextInt(60);
            try {
                DATABASE.transactWriteItems(request -> request.transactItems(move(bank, from, -amount), move(bank, to, amount)));
                moved++;
            } catch (TransactionCanceledException refused) {
                assertEquals("ConditionalCheckFailed", refused.cancellationReasons().get(0).code());
            }
        }
        return moved;
    }

    @Test
    void theBankHoldsWhatItHeldAtEveryMoment() throws Exception {
        String bank = Clients.table("bank");
        for (int account = 0; account < ACCOUNTS; account++) {
            Clients.put(bank, Clients.item("account", account, "money", number(MONEY)));
        }
        AtomicBoolean over = new AtomicBoolean();
        ExecutorService threads = Executors.newFixedThreadPool(10);
        List<Future<Integer>> auditors = IntStream.range(0, 2)
                .mapToObj(auditor -> threads.submit(() -> {
                    int audits = 0;
                    for (; !over.get(); audits++) {
                        assertEquals(ACCOUNTS * MONEY, total(bank));
                    }
                    return audits;
                }))
                .toList();
        List<Callable<Integer>> tellers = new ArrayList<>();
        for (int teller = 0; teller < 8; teller++) {
            Random chance = new Random(teller);
            tellers.add(() -> transfers(bank, 60, chance));
        }
        int moved = 0;
        for (Future<Integer> teller : threads.invokeAll(tellers)) {
            moved += teller.get();
        }
        over.set(true);
        for (Future<Integer> auditor : auditors) {
            assertTrue(auditor.get() > 0);
        }
        threads.shutdown();
        assertTrue(moved > 0 && moved < 480, "both outcomes are met: " + moved);
        assertEquals(ACCOUNTS * MONEY, total(bank));
        assertTrue(Clients.all(bank).stream().allMatch(item -> Clients.number(item, "money") >= 0));
    }

    @Test
    void aCancelledTransactionChangesNothingAndSaysWhy() {
        String name = Clients.table("cancelled");
        TransactWriteItem put = TransactWriteItem.builder()
                .put(write -> write.tableName(name).item(Clients.key("a", 1)))
                .build();
        TransactWriteItem check = TransactWriteItem.builder()
                .conditionCheck(condition -> condition.tableName(name)
                        .key(Clients.key("a", 2))
                        .conditionExpression("attribute_exists(p)"))
                .build();
        TransactionCanceledException cancelled = assertThrows(
                TransactionCanceledException.class, () -> DATABASE.transactWriteItems(request -> request.transactItems(put, check)));
        assertEquals(
                List.of("None", "ConditionalCheckFailed"),
                cancelled.cancellationReasons().stream().map(CancellationReason::code).toList());
        assertEquals(List.of(), Clients.all(name));
    }

    @Test
    void aTokenMakesATransactionHappenOnce() {
        String name = Clients.table("token");
        Clients.put(name, Clients.item("account", 1, "money", number(10)));
        for (int attempt = 0; attempt < 3; attempt++) {
            DATABASE.transactWriteItems(request -> request.clientRequestToken("once").transactItems(move(name, 1, -3)));
        }
        Map<String, AttributeValue> item = Clients.get(name, "account", 1);
        assertEquals(7, Clients.number(item, "money"));
        assertThrows(
                IdempotentParameterMismatchException.class,
                () -> DATABASE.transactWriteItems(request -> request.clientRequestToken("once").transactItems(move(name, 1, -4))));
    }
}
