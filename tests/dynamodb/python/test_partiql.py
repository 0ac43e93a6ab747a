"""PartiQL as the service answers it."""

from __future__ import annotations

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
        ("p IN ['c', 'a', 'c'] ORDER BY p", "a0 a1 a2 c0 c1 c2"),
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
    item = ask("SELECT m.x, m.x.y, l[0], l[1].z, m.absent FROM {table} WHERE p = 'a' AND s = 2")["Items"]
    assert item == [{"x": {"M": {"y": {"S": "a2"}}}, "y": {"S": "a2"}, "l[0]": {"N": "2"}, "z": {"N": "7"}}]


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
    failed = run(("INSERT INTO \"{}\" VALUE {{'p': 'a', 's': 0}}", {}), ("DELETE FROM \"{}\" WHERE p = 'a' AND s = 9 AND m = 1", {}))
    assert [(one["Error"]["Code"], one["TableName"]) for one in failed] == [("DuplicateItem", name), ("ConditionalCheckFailed", name)]
    assert refusal(run, good, good) == ("ValidationException", "Provided list of item keys contains duplicates")
    mixed = (good, ("DELETE FROM \"{}\" WHERE p = 'b' AND s = 1", {}))
    assert refusal(run, *mixed) == ("ValidationException", "Read and write requests together in the same batch is not supported.")
