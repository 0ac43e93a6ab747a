"""PartiQL as the service answers it."""

from __future__ import annotations

import re

import pytest
from botocore.exceptions import ClientError


@pytest.fixture
def ask(dynamodb, make_table):
    """Answers the items of a SELECT in a table of three partitions of three items each."""
    table = make_table(range_key=True)
    for p in "abc":
        for s in range(3):
            table.put_item(Item={"p": p, "s": s, "m": {"x": {"y": f"{p}{s}"}}, "l": [s, {"z": 7}]})

    def run(statement: str, **members):
        return dynamodb.execute_statement(Statement=statement.format(table=f'"{table.name}"'), **members)

    run.table = table
    return run


def places(items) -> list[str]:
    return [item["p"]["S"] + item["s"]["N"] for item in items]


def refusal(call, *arguments, **members) -> tuple[str, str]:
    with pytest.raises(ClientError) as refused:
        call(*arguments, **members)
    return refused.value.response["Error"]["Code"], refused.value.response["Error"]["Message"]


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("p IN ['c', 'a'] ORDER BY p", "a0 a1 a2 c0 c1 c2"),
        ("p IN ['c', 'a'] ORDER BY p DESC", "c0 c1 c2 a0 a1 a2"),
        ("p IN ['c', 'a'] ORDER BY p DESC, s DESC", "c2 c1 c0 a2 a1 a0"),
        ("p IN ['c', 'a'] AND s > 0 ORDER BY p, s DESC", "a2 a1 c2 c1"),
        ("(p = 'b' OR p = 'a') AND s = 1 ORDER BY p DESC", "b1 a1"),
        ("p = 'b' ORDER BY p DESC, s DESC", "b2 b1 b0"),
        ("p = 'b' ORDER BY s DESC", "b2 b1 b0"),
        ("p IN ['b', 'x'] AND m.x.y = 'b1' ORDER BY p", "b1"),
    ],
)
def test_partitions_are_read_in_the_order_asked_for(ask, condition, expected):
    statement = f"SELECT p, s FROM {{table}} WHERE {condition}"
    assert places(ask(statement)["Items"]) == expected.split()
    # The same by pages.
    found, token = [], {}
    while True:
        page = ask(statement, Limit=1, **token)
        found += page["Items"]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert places(found) == expected.split()


def test_an_order_that_cannot_be_kept_is_refused(ask):
    for condition in ("WHERE p IN ['a', 'b'] ORDER BY s", "ORDER BY p", "WHERE p = 'a' ORDER BY m"):
        assert refusal(ask, f"SELECT * FROM {{table}} {condition}")[0] == "ValidationException"


def test_nested_values_are_named_by_their_last_name(ask):
    item = ask("SELECT m.x.y, l[0], l[1].z, m.absent FROM {table} WHERE p = 'a' AND s = 2")["Items"]
    assert item == [{"y": {"S": "a2"}, "l[0]": {"N": "2"}, "z": {"N": "7"}}]


def test_an_unknown_index_is_not_named(ask):
    assert refusal(ask, "SELECT * FROM {table}.\"none\"") == ("ValidationException", "The table does not have the specified index")


def test_transactions_of_statements(ask, dynamodb):
    name, run = ask.table.name, lambda *all: dynamodb.execute_transaction(TransactStatements=[{"Statement": one.format(name)} for one in all])
    assert run("INSERT INTO \"{}\" VALUE {{'p': 'new', 's': 1}}", "DELETE FROM \"{}\" WHERE p = 'a' AND s = 1")["Responses"] == []
    read = 'SELECT s FROM "{}" WHERE p = \'a\' AND s = %d'
    assert run(read % 0, read % 1)["Responses"] == [{"Item": {"s": {"N": "0"}}}, {}]
    texts = {
        (read % 0, read % 0): "Transaction request cannot include multiple operations on one item",
        (read % 0, "DELETE FROM \"{}\" WHERE p = 'b' AND s = 1"): "ExecuteTransaction API does not support both read and write operations in the same request.",
        ("DELETE FROM \"{}\" WHERE p = 'b' AND s = 1 RETURNING ALL OLD *",): "Validation failed in TransactStatements[0]: RETURNING clause is not supported in ExecuteTransaction.",
    }
    for statements, text in texts.items():
        assert refusal(run, *statements) == ("ValidationException", text)


def test_each_statement_of_a_batch_has_its_own_fate(ask, dynamodb):
    name = ask.table.name
    run = lambda *all: dynamodb.batch_execute_statement(Statements=[{"Statement": text.format(name), **more} for text, more in all])["Responses"]
    good = ('SELECT s FROM "{}" WHERE p = \'a\' AND s = 0', {})
    answers = run(
        good,
        ('SELECT s FROM "{}" WHERE p = ? AND s = ?', {"Parameters": [{"S": "a"}]}),
        ("SELECT FROM", {}),
        ('SELECT s FROM "{}" WHERE p = \'a\'', {}),
        ('SELECT s FROM "absent" WHERE p = \'a\'', {}),
    )
    assert answers[0] == {"TableName": name, "Item": {"s": {"N": "0"}}}
    assert answers[1] == {"Error": {"Code": "ValidationError", "Message": "Number of parameters in request and statement don't match."}}
    assert answers[2]["Error"]["Code"] == "ValidationError" and "TableName" not in answers[2]
    keyless = "Select statements within BatchExecuteStatement must specify the primary key in the where clause."
    assert answers[3] == {"Error": {"Code": "ValidationError", "Message": keyless}}
    assert answers[4] == {"TableName": "absent", "Error": {"Code": "ResourceNotFound", "Message": "Requested resource not found"}}
    failed = run(("INSERT INTO \"{}\" VALUE {{'p': 'a', 's': 0}}", {}), ("DELETE FROM \"{}\" WHERE p = 'a' AND s = 1 AND m = 1", {}))
    assert [(one["Error"]["Code"], one["TableName"]) for one in failed] == [("DuplicateItem", name), ("ConditionalCheckFailed", name)]
    assert refusal(run, good, good) == ("ValidationException", "Provided list of item keys contains duplicates")
    mixed = (good, ("DELETE FROM \"{}\" WHERE p = 'b' AND s = 1", {}))
    assert refusal(run, *mixed) == ("ValidationException", "Read and write requests together in the same batch is not supported.")


@pytest.fixture
def sql(dynamodb, make_table):
    """Runs a statement over a table `T` with the item `a`; answers its items, or the text of its refusal."""
    table = make_table()
    table.put_item(Item={"p": "a", "n": 5, "price": 10, "disc": 3, "s": "str", "m": {"x": 1}, "l": [1, 2], "ss": {"a", "b"}})

    def run(statement: str, parameters: list | None = None, call=dynamodb.execute_statement, **members):
        if parameters:
            members["Parameters"] = parameters
        try:
            return call(Statement=statement.replace("T!", f'"{table.name}"'), **members)["Items"]
        except ClientError as error:
            return error.response["Error"]["Message"]

    run.table = table
    return run


def test_a_hyphen_ends_a_name(sql):
    """`n-1` was read as a name, so that `SET n=n-1` was refused and `SET a-b=1` made an attribute."""
    update = lambda changes, *parameters: sql(f"UPDATE T! {changes} WHERE p='a' RETURNING MODIFIED NEW *", [*parameters])
    assert update("SET n=n-1") == [{"n": {"N": "4"}}]
    assert update("SET n=n- ?", {"N": "2"}) == [{"n": {"N": "2"}}]
    assert update("SET n=price-disc-1+(2-1)") == [{"n": {"N": "7"}}]
    assert update('SET "a-b"=1') == [{"a-b": {"N": "1"}}]
    assert update("SET a-b=1") == "Statement wasn't well formed, can't be processed: Expected '='"
    assert sql("SELECT p FROM T! WHERE p='a' AND price-3=7") == "Unsupported operator in Condition Expression. Operator: -"


@pytest.mark.parametrize(
    "condition, holds",
    [
        ("attribute_exists(m.x)", True),
        ("NOT ATTRIBUTE_EXISTS(m.y)", True),
        ("attribute_exists(n) = true", True),
        ("s IS STRING AND n IS NUMERIC AND m IS TUPLE AND l IS LIST", True),
        ("s IS NOT STRING", False),
        ("nope IS MISSING AND n IS NOT MISSING", True),
        ("n NOT IN (1, 2) AND n NOT BETWEEN 6 AND 9", True),
        ("(n = 5) = (s = 'str')", True),
        ("n = 5 -- the rest of the line is a comment", True),
        ("n /* so is this */ != 5", False),
    ],
)
def test_conditions_of_the_published_grammar(sql, condition, holds):
    assert sql(f"SELECT p FROM T! WHERE p='a' AND {condition}") == ([{"p": {"S": "a"}}] if holds else [])


@pytest.mark.parametrize(
    "statement, text",
    [
        ("DELETE FROM T! WHERE p='a' RETURNING ALL NEW *", "Invalid returning clause: RETURNING ALL NEW *. Only RETURNING ALL OLD * is allowed in DELETE statements."),
        ("DELETE FROM T! WHERE p='a' AND n BETWEEN 9 AND 1", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:9}, upper bound operand: AttributeValue: {N:1}"),
        ("DELETE FROM T! WHERE p='a' AND n BETWEEN 1 AND 'x'", "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:x}"),
        ("DELETE FROM T! WHERE p='a' AND n>n", "The first operand must be distinct from the remaining operands for this operator or function; operator: >, first operand: [n]"),
        ("DELETE FROM T! WHERE p='a' AND n<true", "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"),
        ("DELETE FROM T! WHERE p='a' AND p='b'", "Multiple conditions on same key p. Only single item Update/Insert/Delete are supported"),
        ("INSERT INTO T! VALUE {'p':'c','x':1,'x':2}", "Duplicate keys in tuple. Key: x under root at 1:44:3"),
        ("INSERT INTO T! VALUE {'p':'c','m':{'k':1,'k':2}}", "Duplicate keys in tuple. Key: k under root at 1:49:3"),
        ("INSERT INTO T! VALUE {'p':'c','s':<<'a','a'>>}", "One or more parameter values were invalid: Input collection [a, a] contains duplicates."),
        ("INSERT INTO T! VALUE {'p':'c','s':<<1,1.0>>}", "Input collection contains duplicates"),
        ("UPDATE T! SET x=1 SET y=2 SET x=3 WHERE p='a'", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [x], path two: [x]"),
        ("UPDATE T! SET m.x=1 SET m={} WHERE p='a'", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [m, x], path two: [m]"),
        ("UPDATE T! SET ss=set_add(l, <<'x'>>) WHERE p='a'", "The first argument to SET_ADD must equal the assignment value at 1:25:7"),
        ("UPDATE T! REMOVE s, n WHERE p='a'", "Statement wasn't well formed, can't be processed: Unexpected token after expression"),
    ],
)
def test_a_refused_write_changes_nothing(sql, statement, text):
    """DELETE … RETURNING ALL NEW deleted, and of two targets, keys or members with one name the last won."""
    before = sql("SELECT * FROM T!")
    # Places count from the name of the table.
    shift = len(sql.table.name) + 2 - len('"table-1"')
    moved = re.sub(r"at 1:(\d+):", lambda found: f"at 1:{int(found.group(1)) + shift}:", text)
    assert sql(statement) == moved
    assert sql("SELECT * FROM T!") == before


def test_a_delete_of_nothing_looks_at_no_condition(sql):
    assert sql("DELETE FROM T! WHERE p='none' AND n=1") == []
    assert sql("DELETE FROM T! WHERE p='a' AND n=1") == "The conditional request failed"
    assert sql("UPDATE T! SET n=1 WHERE p='none' AND attribute_not_exists(n)") == "The conditional request failed"


def test_an_update_may_begin_with_from(sql):
    assert sql("FROM T! WHERE p='a' AND n=5 SET n=6 REMOVE s RETURNING MODIFIED NEW *") == [{"n": {"N": "6"}}]
    assert "s" not in sql("SELECT * FROM T!")[0]
    leftover = "Statement wasn't well formed, can't be processed: Unexpected token after expression"
    assert sql("FROM T! SET n=7 WHERE p='a'") == leftover


def test_alternatives_may_not_overlap_in_a_partition(ask):
    """Recorded from the service in October 2026: paritysuite, partiqlGrammar and whereOverlap."""
    overlapping = ("ValidationException", "Overlapping conditions with range keys are not supported in where clause")
    for condition in ("p='a' AND s>0 OR p='a' AND s=2", "p='a' AND (s=1 OR m=1)", "p IN ['a','b','a']", "p='a' OR p='a' AND s=1"):
        assert refusal(ask, f"SELECT s FROM {{table}} WHERE {condition}") == overlapping
    for condition, expected in {
        "p='a' AND s=0 OR p='a' AND s>1 OR p='b' AND s>1": "a0 a2 b2",
        "p='a' AND NOT s=1 OR p='a' AND s=2": "a0 a2",
        "p='a' AND s IN [2, 0, 'x']": "a0 a2",
        "p='a' AND (m.x.y='a1' OR m.x.y='a2')": "a1 a2",
        "s<2 AND p='a' AND s>0": "a1",
    }.items():
        assert places(ask(f"SELECT p, s FROM {{table}} WHERE {condition}")["Items"]) == expected.split()


def test_a_transaction_says_which_statement_is_wrong(ask, dynamodb):
    name = ask.table.name
    run = lambda *all: dynamodb.execute_transaction(TransactStatements=[{"Statement": one.format(name)} for one in all])
    insert = "INSERT INTO \"{}\" VALUE {{'p': 'new', 's': 1}}"
    exists = 'EXISTS(SELECT * FROM "{}" WHERE %s)'
    assert run(exists % "p='a' AND s=1 AND l[0]=1", insert)["Responses"] == []
    first = "Validation failed in TransactStatements[0]: "
    for statement, text in {
        'SELECT * FROM "{}" WHERE': "Statement wasn't well formed, can't be processed: Unexpected term",
        exists % "p='a' AND s=1": "EXISTS() must contain a single item read with additional condition",
        'SELECT s FROM "{}" WHERE p=\'a\' AND s=1 AND l[0]=1': "Select statements within ExecuteTransaction must specify the primary key in the where clause.",
    }.items():
        more = () if statement.startswith("SELECT s") else (insert,)
        assert refusal(run, statement, *more) == ("ValidationException", first + text)
