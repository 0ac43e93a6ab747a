"""Records what the original answers to commands about time series.

Writes crates/redis-series/testdata/series.jsonl: each command with its reply as the tests of the layer show it, in RESP2 and RESP3, and the
payloads that DUMP gives for the keys they leave. `python record_series.py`, with PYTHONPATH=tests, and with the libraries of OpenSSL 1.1 in
LD_LIBRARY_PATH.
"""

from __future__ import annotations

import json
from pathlib import Path

from oracle import Oracle
from record_vector_sets import Connection, words_of

from harness.server import free_port

COMMANDS = Path(__file__).resolve().parents[2] / "crates/redis-series/testdata/series.jsonl"
# The original ends its process if the last bucket of a series with a rule is removed, so that is not asked for.
# A line that starts with = is asked in both protocols; it changes nothing.
COMMAND_LINES = """
SET plain text
TS.CREATE
TS.CREATE plain
TS.CREATE a RETENTION x
TS.CREATE a RETENTION -1
TS.CREATE a CHUNK_SIZE 7
TS.CREATE a CHUNK_SIZE 40
TS.CREATE a CHUNK_SIZE 1048584
TS.CREATE a CHUNK_SIZE x
TS.CREATE a LABELS a (x)
TS.CREATE a DUPLICATE_POLICY x
TS.CREATE a DUPLICATE_POLICY
TS.CREATE a IGNORE 1
TS.CREATE a IGNORE -1 1
TS.CREATE a ENCODING x
TS.CREATE a ENCODING
TS.CREATE a LABELS room kitchen floor 1 odd
TS.CREATE a
=TS.GET a
=TS.RANGE a - +
TS.ADD a 1 0.15
TS.ADD a 2 12.5
TS.ADD a 3 1234.5
TS.ADD a 4 0.001
TS.ADD a 5 1e300
TS.ADD a 6 123456789012345678
TS.ADD a 7 -0.000001234
TS.ADD a 8 12345678901234567
TS.ADD a 9 inf
TS.ADD a x 1
TS.ADD a -1 1
TS.ADD a 9223372036854775808 1
TS.ADD a 8 1
TS.ADD a 8 1 ON_DUPLICATE x
TS.ADD a 8 100 ON_DUPLICATE SUM
TS.ADD a 8 100 ON_DUPLICATE min
TS.ADD a 4 7 ON_DUPLICATE LAST
TS.ADD a
TS.ADD plain 1 1
TS.ADD new 5 1 RETENTION 100 LABELS room cellar
=TS.INFO new
TS.ADD new 200 1
TS.ADD new 99 1
TS.ADD new 100 3
=TS.RANGE new - +
TS.ADD new 301 1
=TS.RANGE new - +
=TS.REVRANGE new - +
=TS.GET new
=TS.RANGE a - +
=TS.REVRANGE a - + COUNT 3
=TS.RANGE a 2 5
=TS.RANGE a 5 2
=TS.RANGE a x +
=TS.RANGE a 1 x
=TS.RANGE a -
=TS.RANGE absent - +
=TS.RANGE plain - +
=TS.GET absent
=TS.GET a LATEST
=TS.GET a other
=TS.GET plain
TS.MADD a 1
TS.MADD a 20 1 absent 1 1 plain 1 1 a x 1 a 21 2
TS.CREATE c
TS.MADD c 10 1 c 20 2 c 55 3 c 58 9 c 100 4
=TS.RANGE c 0 200 AGGREGATION avg 10 EMPTY
=TS.RANGE c 0 200 AGGREGATION sum 10 EMPTY
=TS.RANGE c 0 200 AGGREGATION last 10 EMPTY
=TS.RANGE c 0 200 AGGREGATION twa 10 EMPTY
=TS.RANGE c 15 57 AGGREGATION twa 10 EMPTY
=TS.RANGE c 15 57 AGGREGATION twa 10
=TS.RANGE c 25 45 AGGREGATION twa 10 EMPTY
=TS.RANGE c 60 300 AGGREGATION twa 10 EMPTY
=TS.RANGE c 0 200 AGGREGATION std.p 50
=TS.RANGE c 0 200 AGGREGATION std.s 50
=TS.RANGE c 0 200 AGGREGATION var.p 50
=TS.RANGE c 0 200 AGGREGATION var.s 50
=TS.RANGE c 0 200 AGGREGATION range 50
=TS.RANGE c 0 200 AGGREGATION min 50
=TS.RANGE c 0 200 AGGREGATION MAX 50
=TS.RANGE c 0 200 AGGREGATION first 50
=TS.REVRANGE c 0 200 AGGREGATION count 10 EMPTY
=TS.REVRANGE c 0 200 AGGREGATION avg 10 COUNT 2
=TS.RANGE c 5 200 ALIGN start AGGREGATION count 20 BUCKETTIMESTAMP mid EMPTY
=TS.RANGE c 5 200 ALIGN 3 AGGREGATION sum 20 BUCKETTIMESTAMP end
=TS.RANGE c 5 200 ALIGN end AGGREGATION sum 20 BUCKETTIMESTAMP -
=TS.RANGE c - + ALIGN start AGGREGATION sum 20
=TS.RANGE c 0 + ALIGN end AGGREGATION sum 20
=TS.RANGE c 0 + ALIGN 3
=TS.RANGE c 0 + ALIGN x AGGREGATION sum 20
=TS.RANGE c 0 + AGGREGATION sum
=TS.RANGE c 0 + AGGREGATION sum 0
=TS.RANGE c 0 + AGGREGATION sum x
=TS.RANGE c 0 + AGGREGATION other 1
=TS.RANGE c 0 + AGGREGATION sum 10 x EMPTY
=TS.RANGE c 0 + AGGREGATION sum 10 x x BUCKETTIMESTAMP start
=TS.RANGE c 0 + AGGREGATION sum 10 BUCKETTIMESTAMP x
=TS.RANGE c 0 + COUNT 0
=TS.RANGE c 0 + COUNT x
=TS.RANGE c 0 + COUNT
=TS.RANGE c 0 + AGGREGATION COUNT 10 COUNT 2
=TS.RANGE c 0 + COUNT 1 AGGREGATION COUNT 10
=TS.RANGE c 0 + FILTER_BY_VALUE 2 4
=TS.RANGE c 0 + FILTER_BY_VALUE 2
=TS.RANGE c 0 + FILTER_BY_VALUE x 4
=TS.RANGE c 0 + FILTER_BY_VALUE 2 x
=TS.RANGE c 0 + FILTER_BY_TS 55 10 56 100
=TS.REVRANGE c 0 + FILTER_BY_TS 55 10 56 100 AGGREGATION max 50
=TS.RANGE c 0 + FILTER_BY_TS
TS.INCRBY i 5 TIMESTAMP 100
TS.INCRBY i 5 TIMESTAMP 99
TS.DECRBY i 7.5 TIMESTAMP 100
TS.INCRBY i 2 TIMESTAMP 150
TS.INCRBY i 2 TIMESTAMP x
TS.INCRBY i x
TS.INCRBY i
TS.INCRBY plain 1
=TS.RANGE i - +
TS.CREATE u UNCOMPRESSED CHUNK_SIZE 64 DUPLICATE_POLICY SUM IGNORE 10 2.5 LABELS room kitchen floor 2
TS.MADD u 1 1 u 2 2 u 3 3 u 4 4 u 5 5 u 2 7 u 6 6 u 7 7 u 3 1
=TS.RANGE u - +
=TS.REVRANGE u - +
=TS.INFO u
=TS.INFO u DEBUG
TS.ADD u 9 8 ON_DUPLICATE LAST
TS.ADD u 9 12 ON_DUPLICATE LAST
TS.CREATE k CHUNK_SIZE 48 DUPLICATE_POLICY LAST LABELS room bath floor 2
TS.MADD k 1 1.1 k 2 2.2 k 3 3.3 k 4 4.4 k 5 5.5 k 6 6.6 k 7 7.7 k 8 8.8 k 9 9.9 k 10 10.1 k 12 1.5 k 14 1.6 k 15 1.7
TS.ADD k 11 5
TS.ADD k 0 5
TS.ADD k 3 9
TS.ADD k 13 9
=TS.RANGE k - +
=TS.REVRANGE k - +
=TS.REVRANGE k 3 12 COUNT 4
TS.DEL k 4 6
TS.DEL k 100 200
TS.DEL k 5
TS.DEL k 9 3
TS.DEL absent 1 2
TS.DEL plain 1 2
=TS.RANGE k - +
=TS.GET k
=TS.MGET FILTER room=kitchen
=TS.MGET WITHLABELS FILTER room=kitchen floor!=2
=TS.MGET SELECTED_LABELS floor other FILTER room=(kitchen,bath)
=TS.MGET SELECTED_LABELS FILTER room=kitchen
=TS.MGET WITHLABELS SELECTED_LABELS floor FILTER room=kitchen
=TS.MGET FILTER
=TS.MGET a b
=TS.MGET FILTER room
=TS.MGET FILTER room!=kitchen
=TS.MGET FILTER room=
=TS.MGET FILTER room=(kitchen
=TS.QUERYINDEX room=kitchen
=TS.QUERYINDEX room=kitchen floor=2
=TS.QUERYINDEX floor=2 room!=(kitchen,x)
=TS.QUERYINDEX floor=2 room!=
=TS.QUERYINDEX floor=2 room=
=TS.QUERYINDEX floor=()
=TS.QUERYINDEX nothing=2
=TS.QUERYINDEX
=TS.MRANGE 0 + COUNT 2 FILTER floor=2
=TS.MREVRANGE 0 + COUNT 2 WITHLABELS FILTER floor=2
=TS.MRANGE 0 + AGGREGATION avg 10 SELECTED_LABELS room FILTER floor=2
=TS.MRANGE 0 + FILTER floor=2 GROUPBY floor REDUCE sum
=TS.MRANGE 0 + WITHLABELS FILTER floor=2 GROUPBY room REDUCE max
=TS.MREVRANGE 0 + COUNT 3 FILTER floor=(1,2) GROUPBY floor REDUCE avg
=TS.MRANGE 0 + FILTER floor=2 GROUPBY nothing REDUCE sum
=TS.MRANGE 0 + FILTER floor=2 GROUPBY floor REDUCE last
=TS.MRANGE 0 + FILTER floor=2 GROUPBY floor
=TS.MRANGE 0 + GROUPBY floor REDUCE sum FILTER floor=2
=TS.MRANGE 0 + FILTER
=TS.MRANGE 0 +
=TS.MRANGE 0
TS.ALTER a LABELS room hall
TS.ALTER a RETENTION 10 CHUNK_SIZE 128 DUPLICATE_POLICY MAX IGNORE 3 4
TS.ALTER absent
TS.ALTER plain
TS.ALTER a CHUNK_SIZE 5
=TS.INFO a
=TS.QUERYINDEX room=kitchen
=TS.QUERYINDEX room=hall
TS.CREATE r
TS.CREATE r1
TS.CREATE r2
TS.CREATERULE r r1
TS.CREATERULE r r1 AGGREGATION avg 0
TS.CREATERULE r r1 AGGREGATION avg x
TS.CREATERULE r r1 AGGREGATION other 10
TS.CREATERULE r r AGGREGATION avg 10
TS.CREATERULE absent r1 AGGREGATION avg 10
TS.CREATERULE r absent AGGREGATION avg 10
TS.CREATERULE r r1 AGGREGATION avg 10 x
TS.CREATERULE r r1 AGGREGATION avg 10
TS.CREATERULE r r1 AGGREGATION avg 10
TS.CREATERULE r1 r2 AGGREGATION avg 10
TS.CREATERULE c r AGGREGATION avg 10
TS.CREATERULE r r2 AGGREGATION twa 10 3
=TS.INFO r
=TS.INFO r1
TS.MADD r 1 1 r 4 2 r 11 3 r 15 9 r 27 4
=TS.RANGE r1 - +
=TS.RANGE r2 - +
=TS.RANGE r1 - + LATEST
=TS.REVRANGE r1 - + LATEST
=TS.GET r1 LATEST
=TS.GET r2 LATEST
TS.ADD r 12 30
TS.ADD r 26 8
TS.ADD r 2 5
=TS.RANGE r1 - +
=TS.RANGE r2 - +
=TS.GET r1 LATEST
TS.DEL r 11 13
=TS.RANGE r1 - +
TS.ADD r 45 1
=TS.RANGE r1 - +
=TS.RANGE r2 - +
RENAME r1 renamed
=TS.INFO r
TS.ADD r 58 2
=TS.RANGE renamed - +
TS.DELETERULE r r1
TS.DELETERULE r renamed
TS.DELETERULE r renamed
=TS.INFO renamed
DEL r2
=TS.INFO r
TS.ADD r 70 1
RENAME c d
=TS.RANGE d - +
=TYPE d
=OBJECT ENCODING d
GET d
"""
DUMPED = ("a", "d", "u", "k", "i", "new")


def main() -> None:
    port = free_port()
    with Oracle(port, modules=("redistimeseries.so",)) as oracle:
        connections = {"resp2": Connection(port, 2), "resp3": Connection(port, 3)}
        lines = []
        for line in COMMAND_LINES.strip().splitlines():
            words = words_of(line.removeprefix("="))
            protocols = ["resp2", "resp3"] if line.startswith("=") else ["resp2"]
            lines.append({"command": words} | {name: connections[name].call(words) for name in protocols})
        for key in DUMPED:
            lines.append({"dump": key, "payload": oracle.client.dump(key).hex()})
        COMMANDS.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
