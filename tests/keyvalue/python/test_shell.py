"""`quartet kv`: its commands, what it prints, how it ends. The words are those that `fdbcli` reads and prints."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from harness.server import binary, free_port


@pytest.fixture
def shell(database, keyvalue_server):
    def run(commands: str | None = None, typed: str = "", cluster_file: str = keyvalue_server.cluster_file, options=()):
        arguments = [binary(), "kv", "-C", cluster_file, *options]
        if commands is not None:
            arguments += ["--exec", commands]
        ended = subprocess.run(arguments, input=typed.encode(), capture_output=True, timeout=60)
        committed = re.sub(r"Committed \(\d+\)", "Committed", ended.stdout.decode())
        return ended.returncode, committed, ended.stderr.decode()

    return run


def test_reads_and_writes(shell, database):
    assert shell(r'writemode on; set a\x00\xff "hello; world"; set b ""; get a\x00\xff; get nothing; clear b; get b') == (
        0,
        r""">>> writemode on
>>> set a\x00\xff hello\;\x20world
Committed
>>> set b ""
Committed
>>> get a\x00\xff
`a\x00\xff' is `hello; world'
>>> get nothing
`nothing': not found
>>> clear b
Committed
>>> get b
`b': not found
""",
        "",
    )
    assert database[b"a\x00\xff"] == b"hello; world"


def test_ranges(shell, database):
    for letter in b"abc":
        database[b"p" + bytes([letter])] = b"\\" + bytes([letter])
    database[b"q"] = b"end"
    both = "\nRange limited to 25 keys\n`pa' is `\\\\a'\n`pb' is `\\\\b'\n\n"
    assert shell("getrange pa pc") == (0, both, "")
    assert shell("getrangekeys p") == (0, "\nRange limited to 25 keys\n`pa'\n`pb'\n`pc'\n\n", "")
    assert shell('getrangekeys "" \\xff 2') == (0, "\nRange limited to 2 keys\n`pa'\n`pb'\n\n", "")
    assert shell("getrange a b many") == (1, "", "ERROR: bad limit\n")
    assert shell("getrange b a") == (1, "", "ERROR: Range begin key larger than end key (2005)\n")
    code, _, _ = shell('writemode on; clearrange pa pc')
    assert code == 0 and [bytes(row.key) for row in database.get_range(b"", b"\xff")] == [b"pc", b"q"]


def test_a_transaction_is_kept_until_it_ends(shell, database):
    code, output, errors = shell("writemode on; begin; set a 1; get a; reset; get a; set b 2; commit; begin; set c 3; rollback")
    assert (code, errors) == (0, "")
    assert [line for line in output.splitlines() if not line.startswith(">>>")] == [
        "Transaction started", "`a' is `1'", "Transaction reset", "`a': not found", "Committed", "Transaction started", "Transaction rolled back",
    ]  # fmt: skip
    assert [bytes(row.key) for row in database.get_range(b"", b"\xff")] == [b"b"]
    assert shell("begin; begin")[2] == "ERROR: Already in transaction\n"
    for command in ("commit", "reset", "rollback"):
        assert shell(command) == (1, "", "ERROR: No active transaction\n")
    assert shell("begin; commit")[1].splitlines()[-1] == "Nothing to commit"


def test_nothing_is_written_without_writemode(shell, database):
    refusal = "ERROR: writemode must be enabled to set or clear keys in the database.\n"
    for command in ("set a 1", "clear a", "clearrange a b", "writemode on; writemode off; set a 1"):
        assert shell(command)[::2] == (1, refusal)
    assert database[b"a"] == None  # noqa: E711


def test_the_first_command_that_fails_ends_the_line(shell):
    code, output, errors = shell("get a; nonsense; get b")
    assert code == 1 and "get b" not in output and output.endswith("the remaining commands will not be executed.\n")
    assert errors == "ERROR: Unknown command `nonsense'. Try `help'?\n"
    assert shell("get a b")[::2] == (1, "Usage: get <KEY>\n")
    assert shell(r"get \xg0")[0] == 1 and shell('get "a')[0] == 1


def test_options(shell):
    code, output, errors = shell(r"get \xff; exit")
    assert (code, errors) == (1, "ERROR: Key outside legal range (2004)\n")
    code, output, errors = shell(r"option on read_system_keys; option on TIMEOUT 10000; option; get \xff/nosuch; option off timeout; exit")
    assert (code, errors) == (0, "")
    assert "read_system_keys\ntimeout: `10000'\n" in output and r"`\xff/nosuch': not found" in output
    for wrong in ("option on", "option maybe timeout", "option on timeout", "option on nothing", "begin; option off timeout"):
        assert shell(wrong)[0] == 1, wrong


def test_typed_lines_are_run_until_the_end(shell, database):
    code, output, errors = shell(None, "get a\nnonsense\nwritemode on\n\nset a 1\nexit\nset a 2\n")
    assert (code, output) == (0, "`a': not found\nCommitted\n") and "nonsense" in errors
    assert database[b"a"] == b"1"
    assert shell(None, "get a\n")[0] == 0


def test_status_and_help(shell):
    assert "Database                   - available" in shell("status")[1]
    assert shell("status minimal") == (0, "The database is available.\n", "")
    assert '"database_available": true' in shell("status json")[1]
    assert "getrangekeys" in shell("help")[1] and "Usage" not in shell("help get")[1]
    assert r"\xNN" in shell("help escaping")[1] and "retry_limit" in shell("help options")[1]


def test_a_server_that_cannot_be_reached(shell, tmp_path):
    missing = str(tmp_path / "missing")
    assert shell("get a", cluster_file=missing)[0] == 1
    nobody = tmp_path / "nobody.cluster"
    nobody.write_text(f"quartet:dev@127.0.0.1:{free_port()}\n")
    assert shell("get a", cluster_file=str(nobody), options=["--timeout", "1"]) == (1, "", "Specified timeout reached -- exiting...\n")


def test_the_data_folder_of_a_server_started_here_is_found(keyvalue_server, tmp_path):
    def read_nothing(**variables):
        environment = {name: value for name, value in os.environ.items() if name != "FDB_CLUSTER_FILE"} | variables
        ended = subprocess.run([binary(), "kv", "--exec", "get nowhere"], cwd=tmp_path, env=environment, capture_output=True, timeout=60)
        return ended.returncode, ended.stderr

    missing = (1, b"ERROR: No cluster file found in current directory or default location (1515)\n")
    found = Path(keyvalue_server.cluster_file).read_text()
    assert read_nothing() == missing
    (tmp_path / "quartet-data").mkdir()
    (tmp_path / "quartet-data" / "fdb.cluster").write_text(found)
    assert read_nothing() == (0, b"")
    assert read_nothing(FDB_CLUSTER_FILE="elsewhere") == missing, "what is named is what is meant"
    assert read_nothing(FDB_CLUSTER_FILE="") == (0, b"")
