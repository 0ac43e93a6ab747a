"""Asks the original and Quartet the same, and counts what differs, by class.

`python differential.py [--seed N] [--schemas N] [--queries N] [--show N]`: for each schema other documents, and so many requests, each
in RESP2 and RESP3. QUARTET_BIN is the program. `replies.py` says what is compared, `differences.py` what may differ. What is left is
unexplained, and ends the run with 1. Each schema has a seed of its own, made of the run's and its number: `--only N` runs one.

An original that ends on a request, or does not answer it in ten seconds, is started again, and the request is named. Each schema
leaves a line on the standard error, and so does each unexplained difference when it is met.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from differences import Case, class_of, has_alternatives, has_pattern
from oracle import Oracle
from random_requests import Index, definition, request, shapes_of
from record import free_port
from replies import Command, is_error, is_same

BINARY = Path(os.environ.get("QUARTET_BIN", Path(__file__).resolve().parents[2] / "target/release/quartet"))
# How many requests are on their way to each side at once.
BATCH = 50
REPLY_SECONDS_MAX = 10.0
NO_ANSWER = (redis.ConnectionError, redis.TimeoutError, OSError)


class Quartet:
    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.port = free_port()
        self.data = tempfile.TemporaryDirectory(prefix="quartet-differential-")
        command = [str(BINARY), "serve", "--data", self.data.name, "--dev", "--durability", "interval", "--listen-redis", f"127.0.0.1:{self.port}"]
        for other in ("http", "dynamodb", "fauna", "keyvalue"):
            command += [f"--listen-{other}", "off"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT)
        client = redis.Redis(port=self.port)
        deadline = time.monotonic() + 60
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        client.close()
        self.connections = connections(self.port)

    def fill(self, commands: list[Command]) -> None:
        self.setup = commands
        fill(self.connections[0], commands)

    def answers(self, commands: list[Command]) -> list[list[object]] | None:
        """By protocol; nothing if it does not answer, and then it is started again over the same documents."""
        try:
            for connection in self.connections:
                send(connection, commands)
            return [[receive(connection) for _ in commands] for connection in self.connections]
        except NO_ANSWER:
            self.close()
            self.start()
            self.fill(self.setup)
            return None

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        self.data.cleanup()


# ---- Requests and replies


def send(connection: redis.Connection, commands: list[Command]) -> None:
    connection.send_packed_command(connection.pack_commands(commands))


def receive(connection: redis.Connection) -> object:
    try:
        return connection.read_response(disable_decoding=True)
    except redis.ResponseError as error:
        return error


def answers(connection: redis.Connection, commands: list[Command]) -> list[object]:
    send(connection, commands)
    return [receive(connection) for _ in commands]


def connections(port: int) -> list[redis.Connection]:
    """One for each protocol. Answers do not depend on a busy machine: a search may take as long as it needs."""
    out = [redis.Connection(port=port, protocol=protocol, socket_timeout=REPLY_SECONDS_MAX) for protocol in (2, 3)]
    assert answers(out[0], [["FT.CONFIG", "SET", "TIMEOUT", "0"]]) == [b"OK"]
    return out


def fill(connection: redis.Connection, commands: list[Command]) -> None:
    for command, reply in zip(commands, answers(connection, commands), strict=True):
        assert not is_error(reply), (command, reply)


def keys_alone(command: Command, index: Index, original: redis.Connection) -> dict[bytes, object]:
    """The keys that the original finds when it is asked for one at a time, with their scores if these are asked for."""
    given = [word for word in command[3:] if word not in ("WITHSORTKEYS", "NOCONTENT")]
    at = given.index("LIMIT") if "LIMIT" in given else len(given)
    given[at : at + 3] = ["LIMIT", "0", "1"]
    requests = [[*command[:3], "NOCONTENT", "INKEYS", "1", key, *given] for key in index.keys]
    out: dict[bytes, object] = {}
    for reply in answers(original, requests):
        if is_error(reply):
            return {}
        if isinstance(reply, dict):
            out |= {hit[b"id"]: hit.get(b"score") for hit in reply[b"results"]}
        elif reply[1:]:
            out[reply[1]] = reply[-1]
    return out


def is_refused_alone(command: Command, index: Index, original: redis.Connection) -> bool:
    """Whether the original refuses an aggregation of one of the keys."""
    requests = [[*command[:3], "INKEYS", "1", key, *command[3:]] for key in index.keys]
    return any(map(is_error, answers(original, requests)))


class Original:
    """The original, started again over the same documents when it ends."""

    def __init__(self) -> None:
        self.oracle = Oracle(free_port())
        self.setup: list[Command] = []
        self.crashes: list[Command] = []
        self.connect()

    def connect(self) -> None:
        self.connections = connections(self.oracle.client.connection_pool.connection_kwargs["port"])

    def fill(self, commands: list[Command]) -> None:
        self.setup = commands
        fill(self.connections[0], commands)

    def answers(self, commands: list[Command]) -> list[list[object]] | None:
        """By protocol; nothing if it ended on one of these requests."""
        try:
            for connection in self.connections:
                send(connection, commands)
            return [[receive(connection) for _ in commands] for connection in self.connections]
        except NO_ANSWER:
            self.start_again()
            if len(commands) == 1:
                self.crashes.append(commands[0])
            return None

    def start_again(self) -> None:
        self.oracle.process.kill()
        self.oracle.process.wait()
        self.oracle.start()
        self.connect()
        fill(self.connections[0], self.setup)

    def close(self) -> None:
        self.oracle.close()


def batches(choice: random.Random, index: Index, count: int) -> Iterator[list[Command]]:
    for start in range(0, count, BATCH):
        yield [request(choice, index) for _ in range(min(BATCH, count - start))]


class Run:
    def __init__(self, show: int):
        self.show = show
        self.counts: collections.Counter[str] = collections.Counter()
        self.examples: dict[str, list[str]] = collections.defaultdict(list)
        self.refusals: dict[tuple[str, str], list[object]] = collections.defaultdict(list)

    def schema(self, seed: str, queries: int, original: Original, quartet: Quartet) -> None:
        choice = random.Random(seed)
        index, commands = definition(choice)
        original.fill(commands)
        quartet.fill(commands)
        for batch in batches(choice, index, queries):
            theirs, ours = original.answers(batch), quartet.answers(batch)
            if theirs is not None and ours is not None:
                self.compare(seed, index, batch, theirs, ours, original)
                continue
            for command in batch:
                theirs, ours = original.answers([command]), quartet.answers([command])
                if ours is None:
                    self.counts["unexplained"] += 1
                    self.note("unexplained", f"{seed}: Quartet does not answer {command}")
                elif theirs is not None:
                    self.compare(seed, index, [command], theirs, ours, original)

    def compare(self, seed: str, index: Index, batch: list[Command], theirs: list[list[object]], ours: list[list[object]], original: Original) -> None:
        for protocol, (expected, found) in enumerate(zip(theirs, ours, strict=True)):
            for command, their_reply, our_reply in zip(batch, expected, found, strict=True):
                self.counts["compared"] += 1
                if is_same(command, their_reply, our_reply):
                    if is_error(their_reply):
                        self.counts["refused by both"] += 1
                        self.refusals[str(their_reply)[:60], str(our_reply)[:80]].append(command)
                    continue
                given = (command, index, original.connections[protocol])
                alone = lambda given=given: keys_alone(*given)  # noqa: E731
                is_refused = lambda given=given: is_refused_alone(*given)  # noqa: E731
                try:
                    name = class_of(Case(command, their_reply, our_reply, index, alone, is_refused))
                except NO_ANSWER:
                    original.start_again()
                    original.crashes.append(command)
                    name = "the original ends when it is asked for one key"
                self.counts[name] += 1
                if len(self.examples[name]) < self.show or name == "unexplained":
                    self.note(name, f"{seed}: {described(command, their_reply, our_reply)}")

    def note(self, name: str, example: str) -> None:
        self.examples[name].append(example)
        if name == "unexplained":
            print(example, file=sys.stderr, flush=True)


def described(command: Command, theirs: object, ours: object) -> str:
    return f"{command}\n    theirs {shown(theirs)}\n    ours   {shown(ours)}"


def shown(reply: object) -> str:
    return f"refused: {reply}" if is_error(reply) else f"{reply!r:.600}"


# ---- What the original answered, for a comparison without it


def plain(value: object) -> object:
    """As JSON can have it: bytes as text of as many letters, other texts, maps and errors marked."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case redis.ResponseError():
            return {"error": str(value)}
        case dict():
            return {"map": [[plain(name), plain(one)] for name, one in value.items()]}
        case list() | set() | tuple():
            return [plain(one) for one in value]
    return value


def from_plain(value: object) -> object:
    match value:
        case str():
            return value.encode("latin-1")
        case {"error": text}:
            return redis.ResponseError(text)
        case {"map": found}:
            return {from_plain(name): from_plain(one) for name, one in found}
        case list():
            return [from_plain(one) for one in value]
    return value


def plain_word(word: str | bytes) -> object:
    return word if isinstance(word, str) else {"bytes": word.decode("latin-1")}


def word_of(word: object) -> str | bytes:
    return word if isinstance(word, str) else word["bytes"].encode("latin-1")


def record(seed: int, schemas: int, queries: int, path: Path) -> None:
    original = Original()
    try:
        with path.open("w") as out:
            for number in range(schemas):
                choice = random.Random(f"{seed}.{number}")
                index, commands = definition(choice)
                original.fill(commands)
                made = {"index": vars(index), "commands": [[plain_word(word) for word in command] for command in commands]}
                out.write(json.dumps(made) + "\n")
                for (command,) in ([request(choice, index)] for _ in range(queries)):
                    replies = original.answers([command])
                    if replies is None:
                        continue
                    line: dict[str, object] = {"command": [plain_word(word) for word in command], "replies": [plain(reply) for (reply,) in replies]}
                    case = Case(command, replies[0][0], None, index, lambda: None, lambda: None)
                    if command[0] == "FT.AGGREGATE" and not is_error(replies[0][0]):
                        line["is_refused_alone"] = is_refused_alone(command, index, original.connections[0])
                    if command[0] == "FT.SEARCH" and not is_error(replies[0][0]) and (has_alternatives(case) or has_pattern(case)):
                        line["alone"] = [[plain(key), plain(score)] for key, score in keys_alone(command, index, original.connections[0]).items()]
                    out.write(json.dumps(line) + "\n")
    finally:
        original.close()


def replay(path: Path, port: int) -> list[str]:
    """Asks Quartet what was recorded. Returns what is unexplained."""
    ours = connections(port)
    unexplained, index = [], None
    for line in map(json.loads, path.read_text().splitlines()):
        if "commands" in line:
            commands = [[word_of(word) for word in command] for command in line["commands"]]
            index = Index(**(line["index"] | {"shapes": shapes_of(commands)}))
            fill(ours[0], commands)
            continue
        command = [word_of(word) for word in line["command"]]
        alone = {from_plain(key): from_plain(score) for key, score in line["alone"]} if "alone" in line else None
        for connection, recorded in zip(ours, line["replies"], strict=True):
            theirs, (found,) = from_plain(recorded), answers(connection, [command])
            if is_same(command, theirs, found):
                continue
            case = Case(command, theirs, found, index, lambda alone=alone: alone, lambda line=line: line.get("is_refused_alone"))
            if class_of(case) == "unexplained":
                unexplained.append(described(command, theirs, found))
    return unexplained


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemas", type=int, default=20)
    parser.add_argument("--queries", type=int, default=500, help="requests for each schema")
    parser.add_argument("--only", type=int, help="the number of the one schema to run")
    parser.add_argument("--show", type=int, default=3, help="how many differences of each class are printed")
    parser.add_argument("--refusals", action="store_true", help="also prints which errors stand for which")
    parser.add_argument("--record", type=Path, help="only records what the original answers")
    arguments = parser.parse_args()
    if arguments.record:
        record(arguments.seed, arguments.schemas, arguments.queries, arguments.record)
        return 0
    # A run that is ended prints what it has seen.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run, began, original = Run(arguments.show), time.monotonic(), Original()
    quartet = Quartet()
    try:
        for number in range(arguments.schemas) if arguments.only is None else [arguments.only]:
            run.schema(f"{arguments.seed}.{number}", arguments.queries, original, quartet)
            print(f"{arguments.seed}.{number}: {run.counts['compared']} compared, {run.counts['unexplained']} unexplained", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        print("ended before all was asked")
    finally:
        quartet.close()
        original.close()
    for name, count in run.counts.most_common():
        print(f"{count:8} {name}")
        is_unexplained = name == "unexplained"
        for example in run.examples[name][: None if is_unexplained else arguments.show]:
            print(f"  {example}")
    for command in original.crashes:
        print(f"the original ended: {command}")
    if arguments.refusals:
        for (theirs, our_text), found in sorted(run.refusals.items(), key=lambda pair: -len(pair[1])):
            print(f"refused {len(found):6} {theirs!r} {our_text!r} {found[0][:40]}")
    print(f"{run.counts['compared'] / (time.monotonic() - began):.0f} answers a second")
    return int(run.counts["unexplained"] > 0)


if __name__ == "__main__":
    sys.exit(main())
