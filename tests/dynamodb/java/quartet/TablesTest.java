package quartet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static quartet.Clients.DATABASE;
import static quartet.Clients.text;

import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import software.amazon.awssdk.services.dynamodb.model.CreateGlobalSecondaryIndexAction;
import software.amazon.awssdk.services.dynamodb.model.CreateTableRequest;
import software.amazon.awssdk.services.dynamodb.model.GlobalSecondaryIndexDescription;
import software.amazon.awssdk.services.dynamodb.model.GlobalSecondaryIndexUpdate;
import software.amazon.awssdk.services.dynamodb.model.IndexStatus;
import software.amazon.awssdk.services.dynamodb.model.KeyType;
import software.amazon.awssdk.services.dynamodb.model.ProjectionType;
import software.amazon.awssdk.services.dynamodb.model.ResourceInUseException;
import software.amazon.awssdk.services.dynamodb.model.ResourceNotFoundException;
import software.amazon.awssdk.services.dynamodb.model.ScalarAttributeType;
import software.amazon.awssdk.services.dynamodb.model.TableDescription;
import software.amazon.awssdk.services.dynamodb.model.TableStatus;
import software.amazon.awssdk.services.dynamodb.model.Tag;

class TablesTest {
    @Test
    void aTableIsDescribedAndDeleted() {
        CreateTableRequest request = Clients.described("described").build();
        String name = Clients.create(request);
        TableDescription table = DATABASE.describeTable(describe -> describe.tableName(name)).table();
        assertEquals(TableStatus.ACTIVE, table.tableStatus());
        assertEquals(request.keySchema(), table.keySchema());
        assertEquals(request.attributeDefinitions(), table.attributeDefinitions());
        assertTrue(table.tableArn().endsWith(":table/" + name));
        assertThrows(ResourceInUseException.class, () -> DATABASE.createTable(request));
        DATABASE.deleteTable(delete -> delete.tableName(name));
        DATABASE.waiter().waitUntilTableNotExists(describe -> describe.tableName(name));
        assertThrows(ResourceNotFoundException.class, () -> DATABASE.describeTable(describe -> describe.tableName(name)));
    }

    @Test
    void tablesAreListedPageByPage() {
        List<String> made = IntStream.range(0, 5).mapToObj(index -> Clients.table("listed")).toList();
        List<String> listed = DATABASE.listTablesPaginator(list -> list.limit(2)).tableNames().stream().toList();
        assertTrue(listed.containsAll(made), listed::toString);
        assertEquals(listed.stream().sorted().distinct().toList(), listed);
    }

    @Test
    void tagsAreKept() {
        String name = Clients.table("tagged");
        String arn = DATABASE.describeTable(describe -> describe.tableName(name)).table().tableArn();
        Tag tag = Tag.builder().key("owner").value("tests").build();
        DATABASE.tagResource(request -> request.resourceArn(arn).tags(tag));
        assertEquals(List.of(tag), DATABASE.listTagsOfResource(list -> list.resourceArn(arn)).tags());
        DATABASE.untagResource(request -> request.resourceArn(arn).tagKeys("owner"));
        assertEquals(List.of(), DATABASE.listTagsOfResource(list -> list.resourceArn(arn)).tags());
    }

    @Test
    void anIndexIsFilledFromTheItemsThatWereThere() throws InterruptedException {
        String name = Clients.table("indexed");
        for (int index = 0; index < 40; index++) {
            Clients.put(name, Clients.item("p" + index, index, "colour", text(index % 4 == 0 ? "red" : "blue")));
        }
        CreateGlobalSecondaryIndexAction create = CreateGlobalSecondaryIndexAction.builder()
                .indexName("by-colour")
                .keySchema(Clients.key("colour", KeyType.HASH), Clients.key("s", KeyType.RANGE))
                .projection(projection -> projection.projectionType(ProjectionType.KEYS_ONLY))
                .build();
        DATABASE.updateTable(update -> update.tableName(name)
                .attributeDefinitions(Clients.attribute("colour", ScalarAttributeType.S), Clients.attribute("s", ScalarAttributeType.N))
                .globalSecondaryIndexUpdates(GlobalSecondaryIndexUpdate.builder().create(create).build()));
        GlobalSecondaryIndexDescription described;
        do {
            described = DATABASE.describeTable(describe -> describe.tableName(name)).table().globalSecondaryIndexes().get(0);
            Thread.sleep(50);
        } while (described.indexStatus() != IndexStatus.ACTIVE);
        Clients.put(name, Clients.item("late", 100, "colour", text("red")));
        assertEquals(
                List.of(0L, 4L, 8L, 12L, 16L, 20L, 24L, 28L, 32L, 36L, 100L),
                DATABASE.queryPaginator(query -> query.tableName(name)
                                .indexName("by-colour")
                                .limit(3)
                                .keyConditionExpression("colour = :c")
                                .expressionAttributeValues(Map.of(":c", text("red"))))
                        .items().stream().map(item -> Clients.number(item, "s")).collect(Collectors.toList()));
    }
}
