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
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.dynamodb.model.AttributeValue;
import software.amazon.awssdk.services.dynamodb.model.BatchStatementErrorCodeEnum;
import software.amazon.awssdk.services.dynamodb.model.BatchStatementRequest;
import software.amazon.awssdk.services.dynamodb.model.BatchStatementResponse;
import software.amazon.awssdk.services.dynamodb.model.DuplicateItemException;
import software.amazon.awssdk.services.dynamodb.model.ExecuteStatementResponse;
import software.amazon.awssdk.services.dynamodb.model.ParameterizedStatement;
import software.amazon.awssdk.services.dynamodb.model.QueryRequest;
import software.amazon.awssdk.services.dynamodb.model.QueryResponse;
import software.amazon.awssdk.services.dynamodb.model.TransactionCanceledException;

/** Pages of Query, Scan and PartiQL over one table of 60 items of 50 KB: three megabytes. */
class PagesTest {
    private static final int ITEMS = 60;
    private static String name;

    @BeforeAll
    static void fill() {
        name = Clients.table("pages");
        String padding = "x".repeat(50_000);
        for (int s = 0; s < ITEMS; s++) {
            Clients.put(name, Clients.item("large", s, "padding", text(padding)));
            Clients.put(name, Clients.item("small" + s % 7, s, "n", number(s)));
        }
    }

    private static List<Long> ranges(List<Map<String, AttributeValue>> items) {
        return items.stream().map(item -> Clients.number(item, "s")).toList();
    }

    private static QueryRequest.Builder large() {
        return QueryRequest.builder()
                .tableName(name)
                .keyConditionExpression("p = :p")
                .expressionAttributeValues(Map.of(":p", text("large")));
    }

    @Test
    void aPageHoldsAMegabyte() {
        List<QueryResponse> pages = DATABASE.queryPaginator(large().build()).stream().toList();
        assertEquals(List.of(20, 20, 20), pages.stream().map(QueryResponse::count).limit(3).toList());
        List<Long> found = pages.stream().flatMap(page -> ranges(page.items()).stream()).toList();
        assertEquals(LongStream.range(0, ITEMS).boxed().toList(), found);
    }

    @Test
    void aQueryGoesBackwards() {
        QueryRequest request = large().scanIndexForward(false).limit(9).projectionExpression("s").build();
        List<Long> found = ranges(DATABASE.queryPaginator(request).items().stream().toList());
        assertEquals(IntStream.range(0, ITEMS).mapToObj(index -> (long) (ITEMS - 1 - index)).toList(), found);
    }

    @Test
    void aFilterCountsWhatItLeavesOut() {
        QueryResponse page = DATABASE.query(large().limit(10)
                .filterExpression("attribute_exists(absent)")
                .build());
        assertEquals(List.of(0, 10), List.of(page.count(), page.scannedCount()));
        assertTrue(page.hasLastEvaluatedKey());
    }

    @Test
    void segmentsOfAScanAreTheTable() {
        List<Map<String, AttributeValue>> found = new ArrayList<>();
        for (int segment = 0; segment < 4; segment++) {
            int number = segment;
            DATABASE.scanPaginator(scan -> scan.tableName(name).segment(number).totalSegments(4).limit(11).projectionExpression("p, s"))
                    .items()
                    .forEach(found::add);
        }
        assertEquals(2 * ITEMS, found.size());
        assertEquals(2 * ITEMS, Set.copyOf(found).size());
    }

    @Test
    void statementsReadPageByPage() {
        List<Long> found = new ArrayList<>();
        String token = null;
        do {
            String next = token;
            ExecuteStatementResponse page = DATABASE.executeStatement(execute -> execute.statement(
                            "SELECT s FROM \"" + name + "\" WHERE p = ? AND s BETWEEN 10 AND 39")
                    .parameters(text("large"))
                    .limit(7)
                    .nextToken(next));
            found.addAll(ranges(page.items()));
            token = page.nextToken();
        } while (token != null);
        assertEquals(LongStream.range(10, 40).boxed().toList(), found);
    }

    @Test
    void statementsWrite() {
        String table = Clients.table("partiql");
        String quoted = "\"" + table + "\"";
        String insert = "INSERT INTO " + quoted + " VALUE {'p': 'a', 's': 1, 'tags': <<'x'>>}";
        DATABASE.executeStatement(execute -> execute.statement(insert));
        assertThrows(DuplicateItemException.class, () -> DATABASE.executeStatement(execute -> execute.statement(insert)));
        DATABASE.executeStatement(execute -> execute.statement("UPDATE " + quoted + " SET n = ? WHERE p = 'a' AND s = 1")
                .parameters(number(4)));
        assertEquals(4, Clients.number(Clients.get(table, "a", 1), "n"));
        List<BatchStatementResponse> batch = DATABASE.batchExecuteStatement(execute -> execute.statements(
                        statement("SELECT * FROM " + quoted + " WHERE p = 'a' AND s = 1"),
                        statement("SELECT * FROM " + quoted + " WHERE p = 'a'")))
                .responses();
        assertEquals(number(4), batch.get(0).item().get("n"));
        assertEquals(BatchStatementErrorCodeEnum.VALIDATION_ERROR, batch.get(1).error().code());
        ParameterizedStatement delete = ParameterizedStatement.builder()
                .statement("DELETE FROM " + quoted + " WHERE p = 'a' AND s = 1")
                .build();
        ParameterizedStatement again = ParameterizedStatement.builder().statement(insert.replace("'s': 1", "'s': 2")).build();
        DATABASE.executeTransaction(execute -> execute.transactStatements(delete, again));
        assertEquals(List.of(2L), ranges(Clients.all(table)));
        assertThrows(
                TransactionCanceledException.class,
                () -> DATABASE.executeTransaction(execute -> execute.transactStatements(again)));
    }

    private static BatchStatementRequest statement(String text) {
        return BatchStatementRequest.builder().statement(text).build();
    }

    @Test
    void countsNeedNoItems() {
        Set<Integer> counts = IntStream.range(0, 7)
                .mapToObj(index -> DATABASE.query(query -> query.tableName(name)
                                .keyConditionExpression("p = :p")
                                .expressionAttributeValues(Map.of(":p", text("small" + index)))
                                .select("COUNT"))
                        .count())
                .collect(Collectors.toSet());
        assertEquals(Set.of(8, 9), counts);
    }
}
