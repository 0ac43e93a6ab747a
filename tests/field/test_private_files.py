"""Backups and exports were readable by everyone on the machine (0644 in 0755) although they hold credentials and all data.

What the program creates is for its owner alone: files 0600, folders 0700, whatever the mask of the shell.
"""

from __future__ import annotations

import os
import subprocess

import boto3
import pytest

from harness.server import TARGET, Server, binary

pytestmark = pytest.mark.skipif(TARGET != "quartet", reason="about files of Quartet")


def modes(folder) -> dict[str, int]:
    """The permissions of everything below a folder that this test has not made itself."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            found[os.path.relpath(os.path.join(path, name), folder)] = os.stat(os.path.join(path, name)).st_mode & 0o777
    return found


def run(*arguments, **environment) -> None:
    mask = os.umask(0o022)
    try:
        done = subprocess.run([binary(), *map(str, arguments)], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
    finally:
        os.umask(mask)
    assert done.returncode == 0, done.stderr


def test_files_are_for_their_owner(tmp_path):
    with Server("always") as server:
        credentials = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
        url = f"http://127.0.0.1:{server.dynamodb_port}"
        table = boto3.client("dynamodb", "us-east-1", endpoint_url=url, aws_access_key_id="key", aws_secret_access_key="secret")
        table.create_table(
            TableName="table",
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        table.get_waiter("table_exists").wait(TableName="table", WaiterConfig={"Delay": 1})
        table.put_item(TableName="table", Item={"id": {"S": "1"}})
        table.update_continuous_backups(TableName="table", PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True})
        cluster_file = tmp_path / "fdb.cluster"
        cluster_file.write_text(f"quartet:dev@127.0.0.1:{server.keyvalue_port}\n")
        made = tmp_path / "made"
        made.mkdir()
        run("backup", "--server", f"127.0.0.1:{server.http_port}", "--to", made / "backup")
        run("export", "redis", "--from", f"redis://127.0.0.1:{server.port}", "--to", made / "export.rdb")
        run("export", "keyvalue", "--cluster-file", cluster_file, "--to", made / "export.keys")
        run("export", "fauna", "--from", f"http://127.0.0.1:{server.fauna_port}", "--to", made / "fauna")
        run("export", "dynamodb", "--from", url, "--table", "table", "--to", made / "dynamodb", **credentials)
    run("restore", "--from", made / "backup", "--data", made / "restored")
    found = modes(made)
    kinds = {name.split("/")[0] for name in found}
    assert kinds == {"backup", "export.rdb", "export.keys", "fauna", "dynamodb", "restored"}
    expected = {name: 0o700 if (made / name).is_dir() else 0o600 for name in found}
    assert found == expected
