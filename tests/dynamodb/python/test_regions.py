"""The region that a request is signed for: in names always, in data with `--dynamodb-regions separate`."""

from __future__ import annotations

import json
import time

import pytest
from botocore.exceptions import ClientError

from harness.dynamodb import connect
from harness.server import Server

HOME, AWAY = "us-east-1", "eu-west-2"
TABLE = {
    "TableName": "tab",
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
}
POLICY = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"AWS": "1"}, "Action": "dynamodb:*", "Resource": "*"}]})


@pytest.fixture(scope="module")
def shared():
    server = Server(options=["--dynamodb-regions", "shared"]).start()
    yield server
    server.close()


@pytest.fixture
def separate():
    server = Server(options=["--dynamodb-regions", "separate"]).start()
    yield server
    server.close()


def of_regions(server, service: str = "dynamodb"):
    return connect(server, service, region=HOME), connect(server, service, region=AWAY)


def arn(region: str, name: str = "tab") -> str:
    return f"arn:aws:dynamodb:{region}:000000000000:table/{name}"


def code(call, **members) -> str:
    with pytest.raises(ClientError) as refused:
        call(**members)
    return refused.value.response["Error"]["Code"]


def test_shared_tables_are_named_by_the_region_asked(shared):
    home, away = of_regions(shared)
    made = away.create_table(**TABLE)["TableDescription"]
    assert made["TableArn"] == arn(AWAY) and made["LatestStreamArn"].startswith(arn(AWAY))
    assert home.describe_table(TableName="tab")["Table"]["TableArn"] == arn(HOME)
    away.put_item(TableName=arn(AWAY), Item={"p": {"S": "a"}})
    # What one operation takes for the table's name, every other does.
    for client in (home, away):
        for region in (HOME, AWAY):
            assert client.get_item(TableName=arn(region), Key={"p": {"S": "a"}})["Item"] == {"p": {"S": "a"}}
            client.tag_resource(ResourceArn=arn(region), Tags=[{"Key": region, "Value": "x"}])
            assert client.list_tags_of_resource(ResourceArn=arn(region))["Tags"]
    streams = connect(shared, "dynamodbstreams", region=AWAY)
    assert streams.list_streams()["Streams"][0]["StreamArn"] == made["LatestStreamArn"]
    assert records(shared, HOME, made["LatestStreamArn"]) == [("us-east-1", "a")]


def records(server, region: str, stream: str) -> list[tuple[str, str]]:
    streams, found = connect(server, "dynamodbstreams", region=region), []
    for shard in streams.describe_stream(StreamArn=stream)["StreamDescription"]["Shards"]:
        iterator = streams.get_shard_iterator(StreamArn=stream, ShardId=shard["ShardId"], ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
        for record in streams.get_records(ShardIterator=iterator)["Records"]:
            found.append((record["awsRegion"], record["dynamodb"]["Keys"]["p"]["S"]))
    return found


def test_separate_regions_have_tables_of_their_own(separate):
    home, away = of_regions(separate)
    made = {region: client.create_table(**TABLE)["TableDescription"] for region, client in ((HOME, home), (AWAY, away))}
    assert made[HOME]["TableId"] != made[AWAY]["TableId"]
    away.create_table(**{**TABLE, "TableName": "only-away"})
    assert (home.list_tables()["TableNames"], away.list_tables()["TableNames"]) == (["tab"], ["only-away", "tab"])
    assert away.list_tables(Limit=1)["LastEvaluatedTableName"] == "only-away"
    assert away.list_tables(ExclusiveStartTableName="only-away")["TableNames"] == ["tab"]
    for client, text in ((home, "home"), (away, "away")):
        client.put_item(TableName="tab", Item={"p": {"S": text}})
        assert client.scan(TableName="tab")["Items"] == [{"p": {"S": text}}]
    assert code(home.describe_table, TableName="only-away") == "ResourceNotFoundException"
    assert code(home.get_item, TableName=arn(AWAY), Key={"p": {"S": "away"}}) == "ValidationException"
    assert home.get_item(TableName=arn(HOME), Key={"p": {"S": "home"}})["Item"]
    home.delete_table(TableName="tab")
    assert away.scan(TableName="tab")["Count"] == 1


def test_separate_regions_have_settings_of_their_own(separate):
    home, away = of_regions(separate)
    home.create_table(**TABLE)
    away.create_table(**TABLE)
    away.tag_resource(ResourceArn=arn(AWAY), Tags=[{"Key": "k", "Value": "v"}])
    away.put_resource_policy(ResourceArn=arn(AWAY), Policy=POLICY)
    away.update_continuous_backups(TableName="tab", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
    away.update_time_to_live(TableName="tab", TimeToLiveSpecification={"AttributeName": "t", "Enabled": True})
    assert home.list_tags_of_resource(ResourceArn=arn(HOME))["Tags"] == []
    assert away.list_tags_of_resource(ResourceArn=arn(AWAY))["Tags"] == [{"Key": "k", "Value": "v"}]
    assert code(home.get_resource_policy, ResourceArn=arn(HOME)) == "PolicyNotFoundException"
    recovery = lambda client: client.describe_continuous_backups(TableName="tab")["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert [recovery(client)["PointInTimeRecoveryStatus"] for client in (home, away)] == ["DISABLED", "ENABLED"]
    expiry = lambda client: client.describe_time_to_live(TableName="tab")["TimeToLiveDescription"]["TimeToLiveStatus"]
    assert [expiry(client) for client in (home, away)] == ["DISABLED", "ENABLED"]
    for call in (home.list_tags_of_resource, home.get_resource_policy, home.delete_resource_policy):
        assert code(call, ResourceArn=arn(AWAY)) == "ValidationException"


def test_separate_regions_have_streams_of_their_own(separate):
    home, away = of_regions(separate)
    names = {region: client.create_table(**TABLE)["TableDescription"]["LatestStreamArn"] for region, client in ((HOME, home), (AWAY, away))}
    home.put_item(TableName="tab", Item={"p": {"S": "home"}})
    away.put_item(TableName="tab", Item={"p": {"S": "away"}})
    for region, text in ((HOME, "home"), (AWAY, "away")):
        client = connect(separate, "dynamodbstreams", region=region)
        assert [stream["StreamArn"] for stream in client.list_streams()["Streams"]] == [names[region]]
        assert records(separate, region, names[region]) == [(region, text)]
    streams_home, streams_away = of_regions(separate, "dynamodbstreams")
    assert code(streams_home.describe_stream, StreamArn=names[AWAY]) == "ResourceNotFoundException"
    shard = streams_away.describe_stream(StreamArn=names[AWAY])["StreamDescription"]["Shards"][0]["ShardId"]
    iterator = streams_away.get_shard_iterator(StreamArn=names[AWAY], ShardId=shard, ShardIteratorType="TRIM_HORIZON")["ShardIterator"]
    assert code(streams_home.get_records, ShardIterator=iterator) == "ResourceNotFoundException"


def until(holds) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_background_work_is_done_in_every_region(separate):
    _, away = of_regions(separate)
    away.create_table(**TABLE)
    away.update_time_to_live(TableName="tab", TimeToLiveSpecification={"AttributeName": "t", "Enabled": True})
    away.put_item(TableName="tab", Item={"p": {"S": "past"}, "t": {"N": str(int(time.time()) - 10)}})
    away.put_item(TableName="tab", Item={"p": {"S": "kept"}, "g": {"S": "x"}})
    index = {"IndexName": "index", "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}
    away.update_table(TableName="tab", AttributeDefinitions=[{"AttributeName": "g", "AttributeType": "S"}], GlobalSecondaryIndexUpdates=[{"Create": index}])

    def is_built() -> bool:
        table = away.describe_table(TableName="tab")["Table"]
        return table["TableStatus"] == table["GlobalSecondaryIndexes"][0]["IndexStatus"] == "ACTIVE"

    until(is_built)
    assert away.scan(TableName="tab", IndexName="index")["Count"] == 1
    until(lambda: away.scan(TableName="tab")["Count"] == 1)


def test_a_token_means_nothing_in_another_region(separate):
    for client, text in zip(of_regions(separate), ("home", "away")):
        client.create_table(**TABLE)
        client.transact_write_items(TransactItems=[{"Put": {"TableName": "tab", "Item": {"p": {"S": text}}}}], ClientRequestToken="same")
        assert client.scan(TableName="tab")["Items"] == [{"p": {"S": text}}]


def test_the_tables_of_home_are_those_that_regions_share():
    server = Server(durability="always", options=["--dynamodb-regions", "separate"]).start()
    try:
        home, away = of_regions(server)
        home.create_table(**TABLE)
        away.create_table(**{**TABLE, "TableName": "apart"})
        server.options = []
        server.restart()
        home, away = of_regions(server)
        assert home.list_tables()["TableNames"] == away.list_tables()["TableNames"] == ["tab"]
        server.options = ["--dynamodb-regions", "separate"]
        server.restart()
        assert [client.list_tables()["TableNames"] for client in of_regions(server)] == [["tab"], ["apart"]]
    finally:
        server.close()
