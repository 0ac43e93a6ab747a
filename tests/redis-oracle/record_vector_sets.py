"""Records what the original answers about vector sets: `python record_vector_sets.py`.

Writes crates/search/testdata/vector_filters.tsv, the conditions of VSIM's FILTER: each with `+` if an element with the
attributes below passed, `-` if not, or the part of the condition that the error showed. And writes
crates/redis-search/testdata/vector_sets.jsonl: commands with their replies in both protocols, and with the bytes that
DUMP gives for the sets they leave.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path

import redis
from oracle import Oracle
from record import free_port

CRATES = Path(__file__).resolve().parents[2] / "crates"
FILTERS = CRATES / "search/testdata/vector_filters.tsv"
COMMANDS = CRATES / "redis-search/testdata/vector_sets.jsonl"
ATTRIBUTES = (
    '{"y":1,"s":"foo","t":true,"n":null,"arr":[1,"x",null],"big":1e3,"esc":"a\\"b\\u0041","o":{"y":2},"neg":-5}'
)
ERROR = "syntax error in FILTER expression near: "

CONDITIONS = r""".y == 1
.y==1
(.y == 1)
.y > 0 and .s == 'foo'
.y > 0 && .s == "foo" || .y == 7
not .y == 2
!(.y == 2)
! .y
.t
.t == true
.t == 1
.n == null
.n
null == null
.zz == null
.o
.o == 1
.arr
1 in .arr
"x" in .arr
null in .arr
.y in [1,2,3]
.y in [2,3]
.s in ['foo', "bar"]
.s in 'foo'
'fo' in .s
'zz' in .s
.y + 1 == 2
.y+1 == 2
.y -1 == 0
.y - 1 == 0
.y -1
-1 == .neg + 4
.neg == -5
.y ** 2 ** 3 == 1
2 ** 3 ** 2 == 512
7 % 4 == 3
1/0 > 5
.big == 1000
.esc == 'a"bu0041'
.y == '1'
.s == 0
.s > 0
'a' == 'a'
'a' < 'b'
''
'x'
[]
[1]
1
0
1 2
1 +
+ 1
()
(1
1)
.y in [1,[2]]
.y in [1 2]
.y in [1,]
'abc
.
.y.z == 1
..y
@y
.y = 1
.y & 1
.y === 1
.y and not .zz
.zz or 1
1 or .zz
.y==1and.s=='foo'
notfound
true
null
.y == null
1e3 == 1000
1.5.2
.5 == 0.5
0x10 == 16
1 < 2 < 3
5 - -3 == 8
5--3==8
(5)-3 == 2
not
.y-1 == 0
.a_b == 1
"a\"b" == 'a"b'
1 ! 2
1 not 2
.y in (1)
-.y == -1
--1
"""

# Elements are far enough apart that no two are equally near.
COMMAND_LINES = """
VADD v VALUES 3 1 2 3 a
VADD v VALUES 3 1 2 3 a
VADD v VALUES 3 3 2 -1 b SETATTR {"y":1}
VSIM v ELE a
VSIM v ELE a WITHSCORES
VSIM v ELE a WITHSCORES WITHATTRIBS
VSIM v ELE a WITHATTRIBS
VSIM v VALUES 3 1 0 0 WITHSCORES EPSILON 0.3
vsim v values 3 1 0 0 withscores count 1 ef 10 nothread truth
VSIM nokey ELE a
VSIM v ELE zz
VSIM v ELE a COUNT 0
VSIM v ELE a COUNT x
VSIM v ELE a EF 0
VSIM v ELE a EF 99999999
VSIM v ELE a EPSILON x
VSIM v ELE a EPSILON 0
VSIM v ELE a FILTER-EF 0
VSIM v ELE a FILTER .y>
VSIM v ELE a FILTER .y==1
VSIM v ELE a FILTER .y==1 TRUTH WITHSCORES
VSIM v ELE a BLA
VSIM v FP32 abc
VSIM v FP32 AAAABBBB
VSIM v BLA x
VSIM v ELE
VSIM v VALUES 3 1
VSIM v ELE a COUNT
VSIM v VALUES 3 1 0 x
VSIM v VALUES 3 nan 0 1
VSIM v VALUES 2 1 1
VDIM v
VDIM nokey
VCARD v
VCARD nokey
VEMB v a
VEMB v a RAW
VEMB v zz
VEMB nokey zz
VEMB v a bla
VLINKS v zz
VLINKS nokey zz
VLINKS v a bla
VINFO nokey
VGETATTR v a
VGETATTR v b
VGETATTR nokey b
VSETATTR v a {"x":2}
VSETATTR v zz {"x":2}
VSETATTR nokey zz {}
VSETATTR v a ''
VSETATTR v a notjson
VGETATTR v a
VRANDMEMBER v 0
VRANDMEMBER v x
VRANDMEMBER nokey
VRANDMEMBER nokey 3
VISMEMBER v a
VISMEMBER v z
VISMEMBER nokey z
TYPE v
OBJECT ENCODING v
SCAN 0 TYPE vectorset
VREM nokey a
VREM v zz
SET s 1
VADD s VALUES 1 1 a
VSIM s ELE a
VDIM s
VCARD s
VEMB s a
VLINKS s a
VINFO s
VGETATTR s a
VSETATTR s a x
VRANDMEMBER s
VISMEMBER s a
VREM s a
VADD v VALUES 2 1 1 a
VADD v REDUCE 2 VALUES 3 1 1 1 a
VADD v VALUES 3 1 1 1 c NOQUANT
VADD v VALUES 3 1 1 1 c BIN
VADD v VALUES 3 1 1 1 c M 8
VADD v VALUES 3 1 1 1 c M 3
VADD v VALUES 3 1 1 1 c M 4097
VADD v VALUES 3 1 1 1 c EF 0
VADD v VALUES 3 1 1 1 c EF 1000001
VADD v VALUES 3 1 1 1 c BLA
VADD v VALUES 3 1 1 1
VADD v VALUES 3 1 1
VADD v VALUES 0 a b
VADD v VALUES x a b
VADD v BLA x a
VADD v FP32 abc x
VADD v VALUES
VADD v VALUES 3 1 1 nan c
VADD v VALUES 3 1 1 1 c EF
VADD v REDUCE 0 VALUES 3 1 1 1 a
VADD v REDUCE x VALUES 3 1 1 1 a
VADD
VADD v a b
VSIM v
VREM v
VREM v a b
VCARD
VDIM v x
VEMB v
VLINKS v
VINFO
VGETATTR v
VSETATTR v a
VISMEMBER v
VADD r REDUCE 5 VALUES 3 1 1 1 a
VEMB r a
VADD r VALUES 3 1 1 1 b
VADD r REDUCE 4 VALUES 3 1 1 1 b
VADD r REDUCE 5 VALUES 4 1 1 1 1 b
VADD r REDUCE 5 VALUES 3 1 -2 4 b
VSIM r VALUES 4 1 1 1 1
VSIM r VALUES 3 1 1 1 WITHSCORES
VSIM r VALUES 5 1 1 1 1 1 WITHSCORES
VADD z VALUES 3 0 0 0 a
VEMB z a
VEMB z a RAW
VSIM z VALUES 3 1 2 3 WITHSCORES
VADD bin VALUES 3 1 -2 3 a BIN
VADD bin VALUES 3 1 2 3 b BIN SETATTR {}
VEMB bin a
VEMB bin a RAW
VSIM bin VALUES 3 5 -1 1 WITHSCORES
VADD f VALUES 3 1 -2 3 a NOQUANT SETATTR {}
VADD f VALUES 3 5 -2 3 b NOQUANT
VADD f VALUES 3 -5 2 -3.5 c NOQUANT
VEMB f a
VEMB f a RAW
VSIM f VALUES 3 5 -1 1 WITHSCORES WITHATTRIBS
VADD g VALUES 9 1 -2 3 4 5 6 7 8 9 a
VADD g VALUES 9 2 -2 3 4 5 -6 7 8 9 b
VADD g VALUES 9 .1 -.2 .3 .4 .5 .6 .7 .8 -9e9 c
VADD g VALUES 9 1e-7 -2e-9 3 4 5 6 7 8 9 d
VSIM g ELE b WITHSCORES
VEMB g c
VREM f a
VCARD f
VREM f b
VREM f c
EXISTS f
TYPE f
"""


def recorded_filters(oracle: Oracle) -> list[str]:
    client = oracle.client
    client.execute_command("VADD", "v", "VALUES", 2, 1, 0, "a", "SETATTR", ATTRIBUTES)
    lines = []
    for condition in CONDITIONS.splitlines():
        try:
            passed = client.execute_command("VSIM", "v", "ELE", "a", "FILTER", condition)
            answer = "+" if passed else "-"
        except redis.ResponseError as error:
            answer = str(error).removeprefix("ERR ").removeprefix(ERROR)
        lines.append(f"{condition}\t{answer}\n")
    client.flushall()
    return lines


class Connection:
    """Shows replies as the tests of the layer do."""

    def __init__(self, port: int, protocol: int):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")
        self.call(["HELLO", str(protocol)])

    def call(self, words: list[str]) -> str:
        request = b"*%d\r\n" % len(words)
        for word in words:
            request += b"$%d\r\n%s\r\n" % (len(word.encode()), word.encode())
        self.socket.sendall(request)
        return self.reply()

    def reply(self) -> str:
        line = self.file.readline()[:-2]
        kind, rest = line[:1], line[1:].decode()
        if kind in b"$*" and rest == "-1":
            return "nil"
        if kind == b"$":
            text = self.file.read(int(rest) + 2)[:-2]
            return text.decode(errors="replace")
        if kind in b"*~":
            return "[" + " ".join(self.reply() for _ in range(int(rest))) + "]"
        if kind == b"%":
            pairs = [f"{self.reply()}: {self.reply()}" for _ in range(int(rest))]
            return "{" + ", ".join(pairs) + "}"
        if kind == b"-":
            return "!" + rest
        return {b"_": "nil", b"#": {"t": "true", "f": "false"}.get(rest, "")}.get(kind, rest)


def words_of(line: str) -> list[str]:
    return ["" if word == "''" else word for word in line.split(" ")]


def recorded_commands(oracle: Oracle, port: int) -> list[str]:
    connections = {"resp2": Connection(port, 2), "resp3": Connection(port, 3)}
    lines = []
    for line in COMMAND_LINES.strip().splitlines():
        words = words_of(line)
        writes = words[0] in ("VADD", "VREM", "VSETATTR", "SET")
        protocols = ["resp2"] if writes else ["resp2", "resp3"]
        lines.append({"command": words} | {name: connections[name].call(words) for name in protocols})
    for key in ("v", "r", "z", "bin", "g"):
        lines.append({"dump": key, "payload": oracle.client.dump(key).hex()})
    return [json.dumps(line) + "\n" for line in lines]


if __name__ == "__main__":
    port = free_port()
    with Oracle(port) as oracle:
        FILTERS.write_text("".join(recorded_filters(oracle)))
        COMMANDS.write_text("".join(recorded_commands(oracle, port)))
