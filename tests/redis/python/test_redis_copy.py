"""`quartet import redis` and `quartet export redis`: files and live servers, cut off, killed and compared, with a real redis-server."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.certificates import make
from harness.gate import Gate
from harness.resp import Connection, ReplyError
from harness.redis_copy import WAIT_SECONDS_MAX, contents, fill, run_import, start_import, until, url
from harness.server import Server, binary, free_port

DIFFERENT = 3
REJECTED = 2


@pytest.fixture
def target():
    with Server() as server:
        yield server


@pytest.fixture
def redis():
    options = ["--enable-debug-command", "yes", "--repl-ping-replica-period", "1", "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256mb"]
    with Server(target="redis", options=options) as server:
        yield server


def save(redis: Server) -> Path:
    with Connection(redis.port) as connection:
        connection.do("SAVE")
    return Path(redis.data) / "dump.rdb"


def test_an_rdb_file_arrives_whole(redis, target):
    fill(redis.port)
    output = run_import(save(redis), target)
    assert "rejected 0" in output
    assert contents(target.port) == contents(redis.port)
    with Connection(target.port) as connection:
        assert connection.do("FCALL", "f", 0) == 7
        assert connection.do("EXISTS", "quartet:import") == 0


def test_a_target_that_holds_keys_is_left_alone(redis, target):
    fill(redis.port)
    with Connection(target.port) as connection:
        connection.do("SET", "mine", "1")
        assert "the target holds 1 keys" in run_import(save(redis), target, code=1)
        assert connection.do("DBSIZE") == 1
        run_import(save(redis), target, "--merge")
        assert connection.do("GET", "mine") == "1"
        assert connection.do("GET", "string") == "value"


def test_a_damaged_file_is_named_by_its_byte_and_marks_the_target(redis, target):
    fill(redis.port)
    file = save(redis)
    bytes_ = bytearray(file.read_bytes())
    bytes_[-1] ^= 1
    file.write_bytes(bytes_)
    assert "checksum is wrong" in run_import(file, target, code=1)
    with Connection(target.port) as connection:
        assert connection.do("EXISTS", "quartet:import") == 1


def test_an_append_only_folder_arrives_and_its_torn_end_is_reported(target):
    options = ["--aof-use-rdb-preamble", "yes", "--auto-aof-rewrite-percentage", "0"]
    redis = Server(target="redis", options=options, durability="interval").start()
    try:
        fill(redis.port)
        with Connection(redis.port) as connection:
            connection.do("BGREWRITEAOF")
            until(lambda: "aof_rewrite_in_progress:0" in connection.do("INFO", "persistence"))
            until(lambda: "aof_rewrite_scheduled:0" in connection.do("INFO", "persistence"))
            connection.do("SELECT", 9)
            connection.do("INCR", "number")
            connection.do("SPOP", "integers")
            connection.do("MULTI")
            connection.do("SET", "in one", "1")
            connection.do("LPUSH", "list", "first")
            connection.do("EXEC")
            expected = contents(redis.port)
        redis.stop()
        folder = Path(redis.data) / "appendonlydir"
        last = sorted(folder.glob("*.incr.aof"))[-1]
        with last.open("ab") as file:
            file.write(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$3\r\nSET\r\n$4\r\ntorn\r\n$1\r\n1\r\n*3\r\n$3\r\nSE")
        output = run_import(folder, target)
        assert "no whole command" in output
        assert contents(target.port) == expected
    finally:
        redis.close()


def test_refused_keys_are_reported_and_the_rest_arrives(target, tmp_path):
    lines = [["SET", "a", "1"], ["LPUSH", "a", "x"], ["NOSUCHCOMMAND", "b"], ["SET"], ["SELECT", "99"], ["SET", "z", "1"], ["SELECT", "0"], ["SET", "c", "3"]]
    file = tmp_path / "commands.aof"
    file.write_bytes(b"".join(command(line) for line in lines))
    report = tmp_path / "rejected"
    output = run_import(file, target, "--rejected", report, code=REJECTED)
    assert "rejected 4" in output
    text = report.read_text()
    assert "WRONGTYPE" in text and "unknown command" in text and "wrong number of arguments" in text and "16 databases" in text
    with Connection(target.port) as connection:
        assert [connection.do("GET", key) for key in "ac"] == ["1", "3"]


def command(words: list[str]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


def test_a_killed_import_of_commands_goes_on_where_it_was(target, tmp_path):
    """Each command is executed once, however often the import is killed."""
    count = 60_000
    file = tmp_path / "counts.aof"
    file.write_bytes(command(["INCR", "n"]) * count)
    with Connection(target.port) as connection:
        before = 0
        for _ in range(2):
            with Gate(target.port, to_server=500_000) as gate:
                kill_at(gate, start_import(file, gate))
            arrived = int(connection.do("GET", "n"))
            assert before < arrived < count
            before = arrived
        run_import(file, target)
        assert int(connection.do("GET", "n")) == count


def kill_at(gate: Gate, process: subprocess.Popen, begun: Path | None = None) -> None:
    """Kills a copy through the gate when that has closed, and the file has been begun: some has passed, and the rest cannot."""
    try:
        gate.wait_closed()
        until(lambda: begun is None or begun.exists())
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_killed_export_is_none_and_is_begun_anew(redis, tmp_path):
    fill(redis.port)
    file = tmp_path / "out.rdb"

    def words(port: int) -> list:
        return [binary(), "export", "redis", "--from", f"redis://127.0.0.1:{port}", "--to", file]

    with Gate(redis.port, from_server=100_000) as gate:
        process = subprocess.Popen(words(gate.port), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        kill_at(gate, process, begun=tmp_path / "out.rdb.unfinished")
    assert [path.name for path in tmp_path.iterdir()] == ["out.rdb.unfinished"]
    told = subprocess.run(words(redis.port), capture_output=True, text=True, timeout=WAIT_SECONDS_MAX)
    assert told.returncode == 0 and "it starts again" in told.stderr, told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out.rdb"]


def test_credentials_of_an_import_stand_in_files_or_variables(redis, target, tmp_path):
    with Connection(redis.port) as source:
        source.do("SET", "a", "1")
        source.do("ACL", "SETUSER", "copies", "on", ">hidden %", "~*", "&*", "+@all")
        source.do("ACL", "SETUSER", "default", "resetpass", ">other")
    (tmp_path / "password").write_text("hidden %\n")
    with Connection(target.port) as connection:
        source = f"redis://copies:@127.0.0.1:{redis.port}"
        run_import(source, target, "--from-password-file", tmp_path / "password")
        assert connection.do("GET", "a") == "1"
        (tmp_path / "password").write_text("wrong")
        assert "refuses the credential" in run_import(source, target, "--merge", "--from-password-file", tmp_path / "password", code=1)
        both = run_import(f"redis://:x@127.0.0.1:{redis.port}", target, "--from-password-file", tmp_path / "password", code=1)
        assert "both have a password" in both
        environment = {"QUARTET_IMPORT_FROM": f"redis://copies:hidden%20%25@127.0.0.1:{redis.port}", "QUARTET_IMPORT_TO": url(target)}
        command = [binary(), "import", "redis", "--merge"]
        done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=WAIT_SECONDS_MAX)
        assert done.returncode == 0 and "hidden" not in done.stdout + done.stderr, done.stderr


def test_a_source_over_tls_is_copied(target, tmp_path):
    made, port = make(tmp_path), free_port()
    options = ["--tls-port", port, "--tls-cert-file", made.certificate, "--tls-key-file", made.key, "--tls-ca-cert-file", made.root]
    redis = Server(target="redis", options=[*map(str, options), "--tls-auth-clients", "no", "--repl-diskless-sync-delay", "0"]).start()
    try:
        fill(redis.port)
        run_import(f"rediss://localhost:{port}", target, "--from-tls-roots", made.root)
        assert contents(target.port) == contents(redis.port)
        assert "TLS with rediss://" in run_import(f"rediss://localhost:{port}", target, "--merge", code=1)
    finally:
        redis.close()


def write_forever(port: int, stop: threading.Event, acknowledged: dict) -> None:
    """Writes that depend on each other; remembers the last one of each key that was acknowledged."""
    choice = random.Random(port)
    with Connection(port) as connection:
        number = 0
        while not stop.is_set():
            number += 1
            key = f"live{choice.randrange(200)}"
            for words in (["MULTI"], ["INCR", "total"], ["SET", key, number], ["RPUSH", "log", number], ["SPOP", "set"]):
                connection.do(*words)
            outcome = connection.do("EXEC")
            if isinstance(outcome, ReplyError):
                assert outcome.startswith(("NOREPLICAS", "EXECABORT")), outcome
                return
            connection.do("EXPIRE", "small list", 3000 + number)
            acknowledged[key] = number


def test_a_live_server_is_followed_to_a_verified_cut_over(redis, target):
    fill(redis.port)
    stop, acknowledged = threading.Event(), {}
    writer = threading.Thread(target=write_forever, args=(redis.port, stop, acknowledged))
    writer.start()
    try:
        process = start_import(url(redis), target, "--follow")
        with Connection(target.port) as connection:
            until(lambda: int(connection.do("GET", "total") or 0) > 50)
            # The connection breaks, and the stream goes on.
            with Connection(redis.port) as other:
                other.do("CLIENT", "KILL", "TYPE", "replica")
            seen = int(connection.do("GET", "total"))
            until(lambda: int(connection.do("GET", "total") or 0) > seen + 50)
            output, _ = process.communicate("cut over\n", timeout=WAIT_SECONDS_MAX)
            assert process.returncode == 0, output
            assert "no difference" in output and "the stream of commands goes on" in output
            writer.join()
            assert contents(target.port) == contents(redis.port)
            # No acknowledged write is missing, and the source takes no more.
            assert all(int(connection.do("GET", key)) == number for key, number in acknowledged.items())
        with Connection(redis.port) as other:
            assert other.do("SET", "late", "1").startswith("NOREPLICAS")
    finally:
        stop.set()
        writer.join()


def test_differences_at_the_cut_over_are_printed_and_open_the_source_again(redis, target):
    fill(redis.port)
    process = start_import(url(redis), target, "--follow")
    with Connection(target.port) as connection, Connection(redis.port) as source:
        until(lambda: "connected_slaves:1" in source.do("INFO", "replication"))
        until(lambda: "following" in (connection.do("GET", "quartet:import") or ""))
        connection.do("SELECT", 9)
        connection.do("SET", "string", "another")
        connection.do("SET", "extra", "1")
        connection.do("PERSIST", "expiring")
        connection.do("DEL", "geo")
        output, _ = process.communicate("cut over\n", timeout=WAIT_SECONDS_MAX)
        assert process.returncode == DIFFERENT, output
        for line in ('"string": its value', '"extra": only the target', '"expiring": its deadline', '"geo": the target does not'):
            assert f"database 9, {line}" in output, output
        assert "4 differ" in output
        source.do("SET", "goes", "on")


def test_a_first_copy_that_was_killed_begins_anew_without_what_is_gone(redis, target):
    with Connection(redis.port) as source, Connection(target.port) as connection:
        source.do("DEBUG", "POPULATE", 30_000)
        with Gate(target.port, to_server=700_000) as gate:
            kill_at(gate, start_import(url(redis), gate))
        assert 0 < connection.do("DBSIZE") < 30_000
        source.do("DEL", *[f"key:{n}" for n in range(15_000)])
        run_import(url(redis), target)
        assert connection.do("DBSIZE") == source.do("DBSIZE")


def test_a_stopped_follower_goes_on_by_a_partial_resync(redis, target):
    fill(redis.port)
    process = start_import(url(redis), target, "--follow")
    with Connection(target.port) as connection, Connection(redis.port) as source:
        until(lambda: "following" in (connection.do("GET", "quartet:import") or ""))
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=WAIT_SECONDS_MAX)
        assert "continues from here" in output
        source.do("INCR", "number")
        output = run_import(url(redis), target, "--follow", "--cut-over")
        assert "no difference" in output
        assert "sync_full:1" in source.do("INFO", "stats") and "sync_partial_ok:1" in source.do("INFO", "stats")


@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_either_form_of_a_first_copy_is_taken(redis, target, diskless):
    fill(redis.port)
    with Connection(redis.port) as source:
        source.do("CONFIG", "SET", "repl-diskless-sync", diskless, "repl-diskless-sync-delay", 0)
    run_import(url(redis), target)
    assert contents(target.port) == contents(redis.port)


def test_a_real_server_is_exported_to_a_file_that_arrives(redis, target, tmp_path):
    fill(redis.port)
    file = tmp_path / "all.rdb"
    subprocess.run([binary(), "export", "redis", "--from", url(redis), "--to", str(file)], check=True, timeout=WAIT_SECONDS_MAX)
    run_import(file, target)
    assert contents(target.port) == contents(redis.port)
    assert os.listdir(tmp_path) == ["all.rdb"]
