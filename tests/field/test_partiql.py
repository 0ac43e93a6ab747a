"""PartiQL as DynamoDB reads it: minus, functions in conditions, what DELETE returns, what is said twice, and the words of refusals.

The right replies are those of recordings of the service (2026) or, where those say nothing, of DynamoDB Local 2.6.1. A table's name stands as
`T!` in the statements.
"""

from __future__ import annotations

import pytest

INVALID = "ValidationException"
MALFORMED = "ValidationException: Statement wasn't well formed, can't be processed: "


def number(value) -> dict:
    return {"N": str(value)}


@pytest.fixture
def table(service) -> str:
    return service.make_table("pk:S")


@pytest.fixture
def sql(service, table):
    """Runs a statement on the table; the items, or the error."""

    def run(statement: str, parameters: list | None = None):
        return service.sql(statement.replace("T!", f'"{table}"'), parameters)

    return run


def code(reply) -> str:
    return reply.split(":")[0] if isinstance(reply, str) else "ok"


# ---- a hyphen ends a name


@pytest.mark.parametrize(
    ("change", "parameters", "n"),
    [("n=n-1", None, 4), ("n=n- 1", None, 4), ("n=n -1", None, 4), ("n=n-?", [number(2)], 3), ("n=price-disc", None, 7), ("n=n-disc", None, 2)],
)
def test_minus_subtracts(service, table, sql, change, parameters, n):
    service.client.put_item(TableName=table, Item={"pk": {"S": "a"}, "n": number(5), "price": number(10), "disc": number(3)})
    assert sql(f"UPDATE T! SET {change} WHERE pk='a' RETURNING MODIFIED NEW *", parameters) == [{"n": number(n)}]


def test_a_quoted_name_may_have_a_hyphen(service, table, sql):
    service.client.put_item(TableName=table, Item={"pk": {"S": "a"}})
    assert code(sql("UPDATE T! SET a-b=1 WHERE pk='a'")) == INVALID
    assert sql("UPDATE T! SET \"a-b\"=1 WHERE pk='a' RETURNING MODIFIED NEW *") == [{"a-b": number(1)}]


@pytest.mark.parametrize("statement", ["SELECT pk FROM T! WHERE pk='a' AND price-3 = 7", "SELECT * FROM no-table WHERE pk='a'"])
def test_a_misplaced_hyphen_is_refused(sql, statement):
    assert code(sql(statement)) == INVALID


# ---- functions and types in conditions


@pytest.fixture
def item(service, table):
    values = {
        "pk": {"S": "w"},
        "ss": {"SS": ["a", "b"]},
        "s": {"S": "str"},
        "m": {"M": {"sub": {"S": "x"}}},
        "nul": {"NULL": True},
        "flag": {"BOOL": True},
        "a": number(5),
    }
    service.client.put_item(TableName=table, Item=values)


@pytest.mark.usefixtures("item")
@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("attribute_exists(ss)", True),
        ("attribute_exists(nope)", False),
        ("attribute_not_exists(nope)", True),
        ("attribute_not_exists(ss)", False),
        ("NOT attribute_exists(nope)", True),
        ("ATTRIBUTE_EXISTS(ss)", True),
        ("(attribute_exists(nope) OR attribute_exists(ss))", True),
        ("attribute_exists(ss) = true", True),
        ('attribute_exists("ss")', True),
        ("attribute_exists(m.sub)", True),
        ("attribute_exists(m.nope)", False),
        ("flag IS BOOL", True),
        ("s IS STRING", True),
        ("s IS BOOL", False),
        ("size(s) = 3", True),
        ("nul IS NULL", True),
    ],
)
def test_conditions_of_a_select(sql, condition, holds):
    assert sql(f"SELECT pk FROM T! WHERE pk='w' AND {condition}") == [{"pk": {"S": "w"}}] * holds


@pytest.mark.usefixtures("item")
def test_a_scan_with_a_function(sql):
    assert sql("SELECT pk FROM T! WHERE attribute_exists(nul)") == [{"pk": {"S": "w"}}]


@pytest.mark.usefixtures("item")
@pytest.mark.parametrize(
    ("statement", "outcomes"),
    [
        ("UPDATE T! SET z=1 WHERE pk='w' AND attribute_exists(a)", ["ok"]),
        ("UPDATE T! SET z=2 WHERE pk='w' AND attribute_exists(nope)", ["ConditionalCheckFailedException"]),
        ("UPDATE T! SET y=1 WHERE pk='w' AND attribute_not_exists(y)", ["ok", "ConditionalCheckFailedException"]),
        ("UPDATE T! SET z=1 WHERE pk='none' AND attribute_not_exists(pk)", ["ConditionalCheckFailedException"]),
        ("DELETE FROM T! WHERE pk='w' AND attribute_exists(nope)", ["ConditionalCheckFailedException"]),
    ],
)
def test_conditions_of_writes(sql, statement, outcomes):
    assert [code(sql(statement)) for _ in outcomes] == outcomes


@pytest.mark.usefixtures("item")
def test_a_condition_in_a_transaction(service, table):
    statement = {"Statement": f"UPDATE \"{table}\" SET z=3 WHERE pk='w' AND attribute_exists(a)"}
    assert service.outcome("execute_transaction", TransactStatements=[statement]) == "ok"


# ---- what DELETE returns


@pytest.mark.parametrize("form", ["ALL NEW", "MODIFIED OLD", "MODIFIED NEW"])
def test_delete_returns_the_old_item_or_nothing(service, table, sql, form):
    item = {"pk": {"S": "r"}, "a": number(1)}
    service.client.put_item(TableName=table, Item=item)
    assert code(sql(f"DELETE FROM T! WHERE pk='r' RETURNING {form} *")) == INVALID
    assert service.client.get_item(TableName=table, Key={"pk": {"S": "r"}}).get("Item") == item
    assert sql("DELETE FROM T! WHERE pk='r' RETURNING ALL OLD *") == [item]
    assert "Item" not in service.client.get_item(TableName=table, Key={"pk": {"S": "r"}})


# ---- the same thing twice


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO T! VALUE {'pk':'c','x':1,'x':2}",
        "INSERT INTO T! VALUE {'pk':'d','m':{'k':1,'k':2}}",
        "INSERT INTO T! VALUE {'pk':'e','s':<<'a','a'>>}",
        "INSERT INTO T! VALUE {'pk':'g','s':<<1,1.0>>}",
        "UPDATE T! SET x=1 SET y=2 SET x=3 WHERE pk='a'",
        "UPDATE T! SET z=1 REMOVE z WHERE pk='a'",
        "UPDATE T! SET m.x=1 SET m={} WHERE pk='a'",
        "UPDATE T! SET t = set_add(ss, <<'x'>>) WHERE pk='a'",
        "UPDATE T! SET ss = set_add(ss, <<'x','x'>>) WHERE pk='a'",
        "UPDATE T! REMOVE s, n WHERE pk='a'",
        "SELECT pk, pk FROM T! WHERE pk='a'",
    ],
)
def test_a_repeated_part_is_refused(service, table, sql, statement):
    item = {"pk": {"S": "a"}, "ss": {"SS": ["a"]}, "m": {"M": {"x": number(1)}}, "s": {"S": "x"}, "n": number(1)}
    service.client.put_item(TableName=table, Item=item)
    assert code(sql(statement)) == INVALID
    assert service.client.scan(TableName=table)["Items"] == [item]


# ---- the words of refusals


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("SELECT * FROM N! WHERE pk = 1 foo", MALFORMED + "Unexpected token after expression"),
        ("SELECT * FROM N! WHERE pk = 1)", MALFORMED + "Unexpected token after expression"),
        ("SELECT * FROM T! AS x WHERE pk='x'", "ValidationException: Aliasing is not supported"),
        ("UPDATE T! x SET a=3 WHERE pk='x'", "ValidationException: Aliasing is not supported"),
        (
            "SELECT * FROM N! WHERE pk = 1e126",
            "ValidationException: Number overflow. Attempting to store a number with magnitude larger than supported range under root",
        ),
        (
            "INSERT INTO N! VALUE {'pk': 9, 'm': {'x': 1e126}}",
            "ValidationException: Number overflow. Attempting to store a number with magnitude larger than supported range under root.x",
        ),
        ("SELECT * FROM N! WHERE pk = 1e2147483648", MALFORMED),
        ("UPDATE T! SET ss=set_add(ss,<<>>) WHERE pk='i'", "ValidationException: Empty bags are not supported"),
        (
            "SELECT pk FROM T! WHERE pk='i' AND attribute_exists('ss')",
            "ValidationException: Operator or function requires a document path; operator or function: attribute_exists",
        ),
    ],
)
def test_texts(service, table, sql, statement, text):
    service.client.put_item(TableName=table, Item={"pk": {"S": "i"}, "a": number(2), "ss": {"SS": ["a"]}})
    if "N!" in statement:
        statement = statement.replace("N!", f'"{service.make_table("pk:N")}"')
    assert sql(statement) == text


def test_a_global_index_is_not_read_strongly(service):
    table = service.make_table("pk:S", index=("g:S",))
    reply = service.sql(f'SELECT * FROM "{table}"."index"', ConsistentRead=True)
    assert reply == "ValidationException: Strongly consistent read is not supported on Global Secondary Indexes"


def test_exists_needs_a_further_condition(service, table):
    statements = [f"EXISTS(SELECT * FROM \"{table}\" WHERE pk='i')", f"UPDATE \"{table}\" SET z=1 WHERE pk='nn'"]
    reply = service.call("execute_transaction", TransactStatements=[{"Statement": statement} for statement in statements])
    assert reply == (
        "ValidationException: Validation failed in TransactStatements[0]: EXISTS() must contain a single item read with additional condition"
    )


def test_branches_that_overlap_in_the_sort_key(service):
    table = service.make_table("pk:S", "sk:N")
    for sort in range(3):
        service.client.put_item(TableName=table, Item={"pk": {"S": "p"}, "sk": number(sort)})
    reply = service.sql(f"SELECT sk FROM \"{table}\" WHERE pk='p' AND sk > 0 OR pk='p' AND sk = 2")
    assert isinstance(reply, str) and "Overlapping conditions with range keys" in reply


def test_an_index_with_several_sort_attributes(service):
    table = service.make_table("id:S", index=("h:S", "a:S", "b:S"))
    assert service.sql_outcome(f"SELECT * FROM \"{table}\".\"index\" WHERE h='a'") == INVALID
    values = {":h": {"S": "x"}, ":b": {"S": "y"}}
    reply = service.call(
        "query", TableName=table, IndexName="index", KeyConditionExpression="h=:h AND b=:b", ExpressionAttributeValues=values
    )
    assert reply == (
        "ValidationException: RANGE key attributes a must have equality conditions specified in the query "
        "because a condition is present on key attribute b"
    )
