"""Each option of a command that waits is served while it waits: something that happens then wakes the command, and the option holds.

Story: CLAIM of XREADGROUP was served at once and by new entries, and nothing woke a consumer for what became claimable meanwhile; WAITAOF did
not wait at all. An option was tested by requests that are answered at once, so nobody saw that its waiting half was missing. Each word of each
blocking command, as COMMAND DOCS has them, needs a row here.
"""

from __future__ import annotations

import pytest

from harness.resp import NIL_ARRAY, Connection
from harness.server import Server

pytestmark = pytest.mark.quartet_only

GROUP = ("XGROUP CREATE s g $ MKSTREAM",)
DEAD = (*GROUP, "XADD s 1-1 a b", "XREADGROUP GROUP g dead STREAMS s >")

# The request that waits, commands before it, commands while it waits, and its answer.
ROWS = [
    ("BLPOP k other 0", (), ("RPUSH other 1 2",), ["other", "1"]),
    ("BRPOP k other 0", (), ("RPUSH other 1 2",), ["other", "2"]),
    ("BRPOPLPUSH k to 0", (), ("RPUSH k 1 2",), "2"),
    ("BLMOVE k to LEFT RIGHT 0", (), ("RPUSH k 1 2",), "1"),
    ("BLMOVE k to RIGHT LEFT 0", (), ("RPUSH k 1 2",), "2"),
    ("BLMPOP 0 2 k other LEFT COUNT 2", (), ("RPUSH other 1 2 3",), ["other", ["1", "2"]]),
    ("BLMPOP 0 2 k other RIGHT COUNT 2", (), ("RPUSH other 1 2 3",), ["other", ["3", "2"]]),
    ("BZPOPMIN k other 0", (), ("ZADD other 1 a 2 b",), ["other", "a", "1"]),
    ("BZPOPMAX k other 0", (), ("ZADD other 1 a 2 b",), ["other", "b", "2"]),
    ("BZMPOP 0 2 k other MIN COUNT 2", (), ("ZADD other 1 a 2 b 3 c",), ["other", [["a", "1"], ["b", "2"]]]),
    ("BZMPOP 0 2 k other MAX COUNT 2", (), ("ZADD other 1 a 2 b 3 c",), ["other", [["c", "3"], ["b", "2"]]]),
    ("XREAD COUNT 1 BLOCK 0 STREAMS s other $ $", (), ("MULTI", "XADD other 1-1 a b", "XADD other 1-2 a b", "EXEC"), [["other", [["1-1", ["a", "b"]]]]]),
    ("XREADGROUP GROUP g c COUNT 1 BLOCK 0 STREAMS s >", GROUP, ("MULTI", "XADD s 1-1 a b", "XADD s 1-2 a b", "EXEC"), [["s", [["1-1", ["a", "b"]]]]]),
    ("XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS s >", GROUP, ("XADD s 1-1 a b",), [["s", [["1-1", ["a", "b"]]]]]),
    # Nothing else happens: the entry of the dead consumer has become old enough.
    ("XREADGROUP GROUP g c BLOCK 0 CLAIM 300 STREAMS s >", DEAD, (), [["s", [["1-1", ["a", "b"], "IDLE", 1]]]]),
    ("TS.READ t - BLOCK 0 2 MAX_COUNT 2", (), ("TS.ADD t 1 1", "TS.ADD t 2 2"), [[1, "1"], [2, "2"]]),
]

# Afterwards: the commands of which the options decide what is left.
LEFT = {
    "BLMOVE k to LEFT RIGHT 0": (("LRANGE k 0 -1", ["2"]), ("LRANGE to 0 -1", ["1"])),
    "BLMOVE k to RIGHT LEFT 0": (("LRANGE k 0 -1", ["1"]), ("LRANGE to 0 -1", ["2"])),
    "XREADGROUP GROUP g c BLOCK 0 NOACK STREAMS s >": (("XPENDING s g", [0, None, None, NIL_ARRAY]),),
    "XREADGROUP GROUP g c COUNT 1 BLOCK 0 STREAMS s >": (("XPENDING s g - + 9 c", [["1-1", "c", "IDLE", 1]]),),
}

# Replicas wake these, see below.
OF_REPLICAS = {"wait", "waitaof"}


@pytest.fixture(scope="module")
def source():
    with Server(durability="always") as server:
        yield server


def tokens(arguments: list) -> set[str]:
    found = set()
    for flat in arguments:
        argument = dict(zip(flat[::2], flat[1::2]))
        found |= {argument["token"]} if argument.get("token") else set()
        found |= tokens(argument.get("arguments", []))
    return found


def test_each_word_of_each_command_that_waits_has_a_row(source):
    with Connection(source.port) as connection:
        blocking = {entry[0].lower() for entry in connection.do("COMMAND") if "blocking" in entry[2]}
        documents = connection.do("COMMAND", "DOCS", *sorted(blocking))
    asked = {}
    for request, *_ in ROWS:
        name, *words = request.split()
        asked.setdefault(name.lower(), set()).update(words)
    assert blocking - OF_REPLICAS == set(asked)
    for name, document in zip(documents[::2], documents[1::2]):
        if name not in OF_REPLICAS:
            document = dict(zip(document[::2], document[1::2]))
            assert tokens(document.get("arguments", [])) - asked[name] == set(), name


def idle_left_out(answer):
    """Times differ: of an entry with four parts the third is how long it was idle."""
    if not isinstance(answer, list):
        return answer
    if len(answer) == 4 and isinstance(answer[3], int) and answer[0] and "-" in str(answer[0]):
        return [*map(idle_left_out, answer[:2]), "IDLE", answer[3]]
    return [idle_left_out(part) for part in answer]


@pytest.mark.parametrize("in_transaction", [False, True], ids=["alone", "transaction"])
@pytest.mark.parametrize(("request_text", "before", "meanwhile", "answer"), ROWS, ids=[row[0] for row in ROWS])
def test_it_wakes(source, request_text, before, meanwhile, answer, in_transaction):
    with Connection(source.port) as other, Connection(source.port) as waiting:
        other.do("FLUSHALL")
        for command in before:
            other.do(*command.split())
        waiting.send(*request_text.split())
        if meanwhile:
            while "blocked_clients:1" not in other.do("INFO", "clients"):
                pass
        if in_transaction:
            meanwhile = ("MULTI", *(command for command in meanwhile if command not in ("MULTI", "EXEC")), "EXEC")
        for command in meanwhile:
            other.do(*command.split())
        assert idle_left_out(waiting.read()) == answer
        for command, left in LEFT.get(request_text, ()):
            assert idle_left_out(other.do(*command.split())) == left, command


class Replica:
    """Takes the first copy and then says how far it is, when the source asks and it is told to."""

    def __init__(self, port: int):
        self.connection = Connection(port)
        self.connection.do("REPLCONF", "capa", "eof", "capa", "psync2")
        self.connection.send("PSYNC", "?", "-1")
        received = b""
        while b"$EOF:" not in received or len(received.split(b"$EOF:")[1]) < 50 or not received.endswith(received.split(b"$EOF:")[1][:40]):
            received += self.connection.socket.recv(1 << 16)
        self.connection.send("REPLCONF", "ACK", 0)

    def await_question(self) -> None:
        received = b""
        while b"GETACK" not in received:
            received += self.connection.socket.recv(1 << 16)

    def say(self, *words) -> None:
        self.connection.send("REPLCONF", *words)


# The request, what a replica says that is not enough, what is, and the answer.
OF_DISKS = [
    ("WAIT 1 0", ("ACK", 0), ("ACK", 1 << 40), 1),
    ("WAITAOF 0 1 0", ("ACK", 1 << 40), ("ACK", 1 << 40, "FACK", 1 << 40), [1, 1]),
    ("WAITAOF 1 1 0", ("ACK", 1 << 40, "FACK", 0), ("ACK", 1 << 40, "FACK", 1 << 40), [1, 1]),
]


@pytest.mark.parametrize(("request_text", "too_little", "enough", "answer"), OF_DISKS, ids=[row[0] for row in OF_DISKS])
def test_a_replica_wakes_it(request_text, too_little, enough, answer):
    with Server(durability="always") as server, Connection(server.port) as waiting:
        replica = Replica(server.port)
        waiting.do("SET", "a", 1)
        waiting.send(*request_text.split())
        replica.await_question()
        replica.say(*too_little)
        waiting.timeout(0.3)
        with pytest.raises(TimeoutError):
            waiting.read()
        waiting.timeout(60)
        replica.say(*enough)
        assert waiting.read() == answer
        # A timeout ends it, with what there is.
        words = request_text.split()
        waiting.do("SET", "a", 2)
        assert waiting.do(*words[:-2], 9, 20) == (answer if words[0] == "WAITAOF" else 1)
        replica.connection.close()


@pytest.mark.parametrize("durability", ["always", "interval", "none"])
def test_waitaof_waits_for_the_disk_here(durability):
    with Server(durability=durability) as server, Connection(server.port) as connection:
        connection.do("SET", "a", 1)
        assert connection.do("WAITAOF", 1, 0, 0) == [1, 0]
        assert connection.do("EVAL", "return redis.call('WAITAOF', 0, 0, 0)", 0)[1] == 0
        assert connection.do("EVAL", "return redis.call('WAIT', 1, 0)", 0) == 0
