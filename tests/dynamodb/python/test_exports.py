"""Exports of tables to buckets and imports from them: whole, of what changed, through an object store, killed in between, attacked."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import time
from contextlib import contextmanager
from datetime import datetime

import pytest
import zstandard
from botocore.exceptions import ClientError, WaiterError
from harness.admin import Admin
from harness.dynamodb import connect
from harness.object_store import object_store
from harness.server import Server

KEYS = {"KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "p", "AttributeType": "S"}]}
WAIT = {"Delay": 0.1, "MaxAttempts": 600}
GZIP_JSON = {"InputFormat": "DYNAMODB_JSON", "InputCompressionType": "GZIP"}


@contextmanager
def serving(bucket, *options):
    server = Server("always", options=["--dynamodb-buckets", f"here={bucket}", *options]).start()
    try:
        yield server
    finally:
        server.close()


def make_table(client, name="shop"):
    arn = client.create_table(TableName=name, BillingMode="PAY_PER_REQUEST", **KEYS)["TableDescription"]["TableArn"]
    client.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
    return arn


def put(client, items, table="shop"):
    for start in range(0, len(items), 25):
        requests = [{"PutRequest": {"Item": item}} for item in items[start : start + 25]]
        assert not client.batch_write_item(RequestItems={table: requests})["UnprocessedItems"]


def numbered(count, value="x"):
    return [{"p": {"S": str(number)}, "v": {"L": [{"N": str(number)}, {"S": value}, {"B": b"\0\xff"}, {"SS": ["a", "b"]}]}} for number in range(count)]


def items_of(client, table):
    pages = client.get_paginator("scan").paginate(TableName=table)
    return {item["p"]["S"]: item for page in pages for item in page["Items"]}


def export(client, arn, **options):
    return client.export_table_to_point_in_time(TableArn=arn, **{"S3Bucket": "here", **options})["ExportDescription"]["ExportArn"]


def exported(client, arn, **options):
    started = export(client, arn, **options)
    client.get_waiter("export_completed").wait(ExportArn=started, WaiterConfig=WAIT)
    return client.describe_export(ExportArn=started)["ExportDescription"]


def start_import(client, table, prefix, **options):
    source = {"S3Bucket": "here", "S3KeyPrefix": prefix}
    creation = {"TableName": table, "BillingMode": "PAY_PER_REQUEST", **KEYS}
    return client.import_table(S3BucketSource=source, TableCreationParameters=creation, **options)["ImportTableDescription"]["ImportArn"]


def progress(client, arn):
    return client.describe_import(ImportArn=arn)["ImportTableDescription"]


def progressed(client, arn, seen):
    """Once more than `seen` items are processed, or the import has ended."""
    while (found := progress(client, arn))["ProcessedItemCount"] <= seen and found["ImportStatus"] == "IN_PROGRESS":
        time.sleep(0.005)
    return found


def imported(client, table, prefix, **options):
    started = start_import(client, table, prefix, **options)
    client.get_waiter("import_completed").wait(ImportArn=started, WaiterConfig=WAIT)
    return progress(client, started)


def failure_of_import(client, table, prefix, **options):
    started = start_import(client, table, prefix, **options)
    with pytest.raises(WaiterError):
        client.get_waiter("import_completed").wait(ImportArn=started, WaiterConfig=WAIT)
    found = progress(client, started)
    assert found["ImportStatus"] == "FAILED" and found["FailureMessage"]
    assert refused(client.describe_table, TableName=table) == "ResourceNotFoundException"
    return found["FailureCode"]


def refused(call, **members):
    code = refusal(call, **members)
    assert code is not None
    return code


def refusal(call, **members):
    """`None` if it is not refused."""
    try:
        call(**members)
    except ClientError as error:
        return error.response["Error"]["Code"]


def lines_of(described, read):
    """What the files of an export hold, each compared with its manifest."""
    summary = json.loads(read(described["ExportManifest"]))
    assert summary["itemCount"] == described["ItemCount"] and summary["exportArn"] == described["ExportArn"]
    manifest = read(summary["manifestFilesS3Key"])
    assert read(summary["manifestFilesS3Key"].replace(".json", ".md5")) == base64.b64encode(hashlib.md5(manifest).digest())
    lines = []
    for file in map(json.loads, manifest.splitlines()):
        data = read(file["dataFileS3Key"])
        assert base64.b64encode(hashlib.md5(data).digest()).decode() == file["md5Checksum"]
        found = gzip.decompress(data).splitlines()
        assert len(found) == file["itemCount"]
        lines += found
    return summary, lines


def next_second():
    """The next whole second, once it is there."""
    second = int(time.time()) + 1
    while time.time() < second:
        time.sleep(0.01)
    return second


def test_a_table_is_exported_and_imported(tmp_path):
    """Nothing leaves or enters but through the buckets that the operator has named."""
    with serving(tmp_path) as server:
        client = connect(server)
        arn = client.create_table(TableName="shop", BillingMode="PAY_PER_REQUEST", **KEYS)["TableDescription"]["TableArn"]
        ask = lambda **options: export(client, arn, **options)  # noqa: E731
        assert refused(ask) == "PointInTimeRecoveryUnavailableException"
        client.update_continuous_backups(TableName="shop", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
        assert refused(ask, S3Bucket="elsewhere") == "ValidationException"
        assert refused(ask, ExportTime=datetime(2020, 1, 1)) == "InvalidExportTimeException"
        put(client, numbered(60))
        before = items_of(client, "shop")
        described = exported(client, arn, S3Prefix="out")
        put(client, numbered(40, "changed"))
        assert described["ItemCount"] == len(before)
        _, lines = lines_of(described, lambda key: (tmp_path / key).read_bytes())
        assert sorted(json.loads(line)["Item"]["p"]["S"] for line in lines) == sorted(before)
        listed = client.list_exports(TableArn=arn)["ExportSummaries"]
        assert [(found["ExportArn"], found["ExportType"]) for found in listed] == [(described["ExportArn"], "FULL_EXPORT")]
        assert imported(client, "copy", "out/", **GZIP_JSON)["ImportedItemCount"] == len(before)
        assert items_of(client, "copy") == before


def test_ion_and_zstandard_are_imported(tmp_path):
    with serving(tmp_path) as server:
        client = connect(server)
        arn = make_table(client)
        put(client, numbered(300, 'a "quoted"\nline'))
        before = items_of(client, "shop")
        described = exported(client, arn, S3Prefix="ion", ExportFormat="ION")
        _, lines = lines_of(described, lambda key: (tmp_path / key).read_bytes())
        assert all(line.startswith(b"$ion_1_0 {Item:{") for line in lines)
        done = imported(client, "from-ion", "ion/", InputFormat="ION", InputCompressionType="GZIP")
        assert (done["ImportedItemCount"], done["ErrorCount"]) == (300, 0)
        assert items_of(client, "from-ion") == before
        (tmp_path / "zstd").mkdir()
        (tmp_path / "zstd" / "a.zst").write_bytes(zstandard.ZstdCompressor(level=19, write_checksum=True).compress(b"\n".join(lines)))
        imported(client, "from-zstd", "zstd/", InputFormat="ION", InputCompressionType="ZSTD")
        assert items_of(client, "from-zstd") == before


def test_an_incremental_export_tells_what_changed(tmp_path):
    with serving(tmp_path) as server:
        client = connect(server)
        arn = make_table(client)
        put(client, numbered(30))
        before = items_of(client, "shop")
        start = next_second()
        put(client, numbered(10, "changed"))
        put(client, [{"p": {"S": "new"}}, {"p": {"S": "for a moment"}}])
        for key in ("20", "21", "for a moment"):
            client.delete_item(TableName="shop", Key={"p": {"S": key}})
        after = items_of(client, "shop")
        end = next_second()
        put(client, numbered(30, "later"))
        period = {"ExportFromTime": start, "ExportToTime": end}
        ask = lambda specification, **options: export(  # noqa: E731
            client, arn, ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=specification, **options
        )
        assert refused(ask, specification={"ExportFromTime": end, "ExportToTime": start}) == "ValidationException"
        assert refused(ask, specification={"ExportFromTime": start - 10_000}) == "InvalidExportTimeException"
        assert refused(ask, specification={"ExportFromTime": start, "ExportToTime": end + 10_000}) == "InvalidExportTimeException"
        assert refused(ask, specification=period, ExportTime=start) == "ValidationException"
        read = lambda key: (tmp_path / key).read_bytes()  # noqa: E731
        for view, has_old in (("NEW_AND_OLD_IMAGES", True), ("NEW_IMAGE", False)):
            described = exported(
                client, arn, S3Prefix="out", ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=period | {"ExportViewType": view}
            )
            specification = described["IncrementalExportSpecification"]
            assert specification["ExportViewType"] == view and specification["ExportFromTime"].timestamp() == start
            summary, lines = lines_of(described, read)
            assert (summary["exportType"], summary["outputView"]) == ("INCREMENTAL_EXPORT", view)
            assert all(path.parent.name == "data" and path.parent.parent.name == "AWSDynamoDB" for path in tmp_path.rglob("*.json.gz"))
            changes = {change["Keys"]["p"]["S"]: change for change in map(json.loads, lines)}
            assert set(changes) == {*map(str, range(10)), "20", "21", "new"} and len(lines) == len(changes)
            for key, change in changes.items():
                assert start * 10**6 <= int(change["Metadata"]["WriteTimestampMicros"]["N"]) < end * 10**6
                assert ("NewImage" in change) == (key in after) and ("OldImage" in change) == (has_old and key in before)
                assert change.get("NewImage", {}).get("v", {}).get("L", [{}] * 2)[1].get("S") == ("changed" if key.isdigit() and int(key) < 10 else None)
                assert not has_old or change.get("OldImage", {}).get("v", {}).get("L", [{}] * 2)[1].get("S") == ("x" if key in before else None)
        described = exported(client, arn, S3Prefix="ion", ExportFormat="ION", ExportType="INCREMENTAL_EXPORT", IncrementalExportSpecification=period)
        _, lines = lines_of(described, read)
        assert len(lines) == 13 and all(line.startswith(b"$ion_1_0 {Record:{Metadata:{WriteTimestampMicros:") for line in lines)


def test_an_object_store_is_exported_to_and_imported_from(monkeypatch):
    with object_store() as store:
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        bucket = store.client()
        bucket.create_bucket(Bucket="safe")
        with serving("s3://safe/tables") as server:
            client = connect(server)
            arn = make_table(client)
            put(client, numbered(200))
            before = items_of(client, "shop")
            described = exported(client, arn, S3Prefix="out")
            _, lines = lines_of(described, lambda key: bucket.get_object(Bucket="safe", Key=f"tables/{key}")["Body"].read())
            assert len(lines) == len(before)
            imported(client, "copy", "out/", **GZIP_JSON)
            assert items_of(client, "copy") == before
            assert failure_of_import(client, "none", "no/such/prefix", **GZIP_JSON) == "S3NoSuchKey"


def test_a_killed_server_goes_on_with_what_it_imported_and_exported(tmp_path):
    count, choice = 9_000, random.Random(14)
    (tmp_path / "in").mkdir()
    values = {str(number): base64.b64encode(choice.randbytes(1_500)).decode() for number in range(count)}
    with (tmp_path / "in" / "lines").open("w") as file:
        file.writelines(json.dumps({"Item": {"p": {"S": key}, "v": {"S": value}}}) + "\n" for key, value in values.items())
    with serving(tmp_path) as server:
        client = connect(server)
        # On a busy machine an import may end before it is looked at.
        for table in (f"shop{attempt}" for attempt in range(20)):
            arn = start_import(client, table, "in/", InputFormat="DYNAMODB_JSON")
            # Nobody reads it, and nobody takes it away.
            status = client.describe_table(TableName=table)["Table"]["TableStatus"]
            refusals = refusal(client.scan, TableName=table), refusal(client.delete_table, TableName=table)
            is_early = progress(client, arn)["ImportStatus"] == "IN_PROGRESS"
            found = progressed(client, arn, 0)
            if is_early and found["ImportStatus"] == "IN_PROGRESS" and found["ProcessedItemCount"] < count:
                break
        else:
            pytest.fail("no kill met an import")
        assert (status, *refusals) == ("CREATING", "ResourceNotFoundException", "ResourceInUseException")
        assert 0 < found["ProcessedItemCount"] < count
        for _ in range(3):
            server.kill()
            server.start()
            client = connect(server)
            found = progressed(client, arn, found["ProcessedItemCount"])
        client.get_waiter("import_completed").wait(ImportArn=arn, WaiterConfig=WAIT)
        done = progress(client, arn)
        assert (done["ProcessedItemCount"], done["ImportedItemCount"], done["ErrorCount"]) == (count, count, 0)
        assert {key: item["v"]["S"] for key, item in items_of(client, table).items()} == values

        client.update_continuous_backups(TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
        arn = client.describe_table(TableName=table)["Table"]["TableArn"]
        for out in (tmp_path / f"out{attempt}" for attempt in range(20)):
            started = export(client, arn, S3Prefix=out.name)
            while not list(out.rglob("data/*.gz")):
                assert client.describe_export(ExportArn=started)["ExportDescription"]["ExportStatus"] != "FAILED"
                time.sleep(0.005)
            server.kill()
            is_in_time = not list(out.rglob("manifest-summary.json"))
            server.start()
            client = connect(server)
            if is_in_time:
                break
        else:
            pytest.fail("no kill met an export")
        client.get_waiter("export_completed").wait(ExportArn=started, WaiterConfig=WAIT)
        described = client.describe_export(ExportArn=started)["ExportDescription"]
        _, lines = lines_of(described, lambda key: (tmp_path / key).read_bytes())
        found = [json.loads(line)["Item"] for line in lines]
        assert len(found) == count and {item["p"]["S"]: item["v"]["S"] for item in found} == values
        assert not list(tmp_path.rglob("*.unfinished"))


def test_no_path_leads_out_of_a_bucket(tmp_path):
    bucket, outside = tmp_path / "bucket", tmp_path / "outside"
    bucket.mkdir()
    outside.mkdir()
    (outside / "secret").write_text('{"Item":{"p":{"S":"secret"}}}\n')
    (bucket / "link").symlink_to(outside)
    (bucket / "file").symlink_to(outside / "secret")
    with serving(bucket) as server:
        client = connect(server)
        arn = make_table(client)
        put(client, numbered(3))
        for prefix in ("../outside/", "a/../../outside/", "link/", "link/sec", "file", "/../outside"):
            assert failure_of_import(client, "stolen", prefix, InputFormat="DYNAMODB_JSON")
        for prefix in ("../outside", "link", "a/../../outside", "link/deeper", "file"):
            started = export(client, arn, S3Prefix=prefix)
            with pytest.raises(WaiterError):
                client.get_waiter("export_completed").wait(ExportArn=started, WaiterConfig=WAIT)
            assert client.describe_export(ExportArn=started)["ExportDescription"]["FailureMessage"]
        assert [path.name for path in outside.rglob("*")] == ["secret"]
        for name in ("", ".", "..", "/", "here/..", str(outside), "HERE"):
            assert refused(lambda name=name: export(client, arn, S3Bucket=name)) == "ValidationException"


def test_bombs_are_refused(tmp_path):
    zeros = b"0" * (80 << 20)
    files = {
        "blank": (GZIP_JSON, gzip.compress(b"\n" * (80 << 20))),
        "long": (GZIP_JSON, gzip.compress(zeros)),
        "quoted": ({"InputFormat": "CSV", "InputCompressionType": "GZIP"}, gzip.compress(b'p,v\n"' + zeros)),
        "commas": ({"InputFormat": "CSV", "InputCompressionType": "GZIP"}, gzip.compress(b"p,v\n" + b"," * (80 << 20))),
        "frames": ({"InputFormat": "ION", "InputCompressionType": "ZSTD"}, zstandard.compress(b"{" * (80 << 20))),
        "window": ({"InputFormat": "ION", "InputCompressionType": "ZSTD"}, zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(window_log=30)).compress(zeros)),
        "no gzip": (GZIP_JSON, b"\x1f\x8bplain text"),
        "deep": ({"InputFormat": "DYNAMODB_JSON"}, (b'{"Item":' * 100_000 + b"\n") * 2 + b"x\n" * 10_001),
    }  # fmt: skip
    for name, (_, content) in files.items():
        (tmp_path / name).write_bytes(content)
    with serving(tmp_path) as server:
        client = connect(server)
        before = server.rss_bytes()
        for name, (options, _) in files.items():
            assert failure_of_import(client, "bomb", name, **options) == "InvalidData", name
        assert server.rss_bytes() - before < 200 << 20
        assert client.list_tables()["TableNames"] == []


def test_exports_keep_to_the_room_of_a_bucket(tmp_path):
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "there before").write_bytes(bytes(50_000))
    with serving(bucket, "--dynamodb-bucket-bytes-max", "100000") as server:
        client = connect(server)
        arn = make_table(client)
        put(client, numbered(10))
        first = exported(client, arn)
        assert first["ItemCount"] == 10
        random_value = base64.b64encode(random.Random(1).randbytes(100_000)).decode()
        put(client, [{"p": {"S": "large"}, "v": {"S": random_value}}])
        with pytest.raises(WaiterError):
            client.get_waiter("export_completed").wait(ExportArn=(second := export(client, arn)), WaiterConfig=WAIT)
        failed = client.describe_export(ExportArn=second)["ExportDescription"]
        assert (failed["ExportStatus"], failed["FailureCode"]) == ("FAILED", "LimitExceededException")
        assert "may hold 100000" in failed["FailureMessage"]
        assert sum(file.stat().st_size for file in bucket.rglob("*") if file.is_file()) <= 100_000
        (bucket / "there before").unlink()
        client.delete_item(TableName="shop", Key={"p": {"S": "large"}})
        assert exported(client, arn)["ItemCount"] == 10


def test_other_databases_have_no_buckets(tmp_path):
    with serving(tmp_path) as server:
        database = Admin(server).create("other")
        credentials = database["credentials"]
        client = connect(server, key=(credentials["access_key_id"], credentials["secret_access_key"]))
        arn = make_table(client)
        assert refused(lambda: export(client, arn)) == "ValidationException"
        assert refused(lambda: start_import(client, "copy", "", InputFormat="CSV")) == "ValidationException"
        assert list(tmp_path.iterdir()) == []
