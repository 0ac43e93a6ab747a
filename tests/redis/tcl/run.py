"""`python tests/redis/tcl/run.py CHECKOUT [UNIT...]`: Redis' own TCL suite against Quartet, beside redis-server if there is one.

CHECKOUT is an unpacked source tree of Redis 7.0.15 (`tests`, `utils`, `runtest`); nothing of it is kept here. Each unit gets
a fresh server of each kind. Ends with an error unless Quartet passes what Redis passes, apart from `exceptions.txt`.

    --report FILE     writes the outcome as Markdown; a run of some units replaces what FILE says of them
    --output FOLDER   keeps what the suite printed: FOLDER/SERVER/UNIT.txt
    --tags TAGS       the suite's own filter; the default leaves out what takes minutes
    --all             runs the exceptions against Quartet too. Otherwise they are left out, because a test that ends in the middle
                      leaves an open transaction, a pause or keys behind, over which good ones stumble
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from harness.resp import Connection  # noqa: E402
from harness.server import Server  # noqa: E402
from report import Exceptions, Report, Unit, faults  # noqa: E402
from suite import Outcome, copy_of, run_unit  # noqa: E402

UNITS = """
unit/type/string unit/type/incr unit/type/list unit/type/list-2 unit/type/list-3 unit/type/set unit/type/zset unit/type/hash
unit/type/stream unit/type/stream-cgroups
unit/geo unit/sort unit/scan unit/keyspace unit/expire unit/multi unit/protocol unit/bitops unit/bitfield unit/hyperloglog unit/other unit/auth
unit/scripting unit/functions unit/dump
unit/introspection unit/introspection-2 unit/slowlog unit/info unit/info-command unit/quit unit/lazyfree unit/pause unit/latency-monitor
unit/pubsub unit/pubsubshard unit/tracking unit/acl unit/acl-v2 unit/querybuf unit/replybufsize unit/violations unit/obuf-limits unit/limits unit/client-eviction
integration/redis-cli integration/redis-benchmark
""".split()
OPTIONS = {
    "quartet": [],
    "redis": ["--enable-debug-command", "yes", "--enable-protected-configs", "yes", "--enable-module-command", "yes"],
}


def main() -> int:
    options = arguments()
    exceptions = Exceptions(HERE / "exceptions.txt")
    with tempfile.TemporaryDirectory(prefix="quartet-tcl-") as folder:
        suite = copy_of(options.checkout, Path(folder))
        units = [compare(suite, name, options, exceptions) for name in options.units or UNITS]
    if options.report:
        write_report(units, exceptions, options)
    found = faults(units, exceptions)
    print("\n".join(found))
    passed = sum(len(unit.quartet.passed) for unit in units)
    explained = sum(len(unit.differences()) for unit in units)
    print(f"{passed} passed, {explained} differences from Redis, {len(found)} to mend in Quartet or in exceptions.txt")
    return 1 if found else 0


def write_report(units: list[Unit], exceptions: Exceptions, options: argparse.Namespace) -> None:
    is_part = options.units and options.report.exists()
    report = Report.read(options.report.read_text()) if is_part else Report({}, {})
    for unit in units:
        report.add(unit, exceptions, str(datetime.date.today()))
    options.report.write_text(report.markdown(heading(options)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("units", nargs="*")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--tags", default="-slow")
    parser.add_argument("--all", action="store_true")
    return parser.parse_intermixed_args()


def compare(suite: Path, name: str, options: argparse.Namespace, exceptions: Exceptions) -> Unit:
    redis = run_against("redis", suite, name, options, []) if shutil.which("redis-server") else None
    skipped = [] if options.all else exceptions.tests(name)
    unit = Unit(name, redis, run_against("quartet", suite, name, options, skipped))
    beside = f"Redis {len(redis.passed)}, " if redis else ""
    print(f"{name}: {beside}Quartet {len(unit.quartet.passed)} passed, {len(unit.differences())} differences", flush=True)
    return unit


def run_against(target: str, suite: Path, name: str, options: argparse.Namespace, skipped: list[str]) -> Outcome:
    server = Server(durability="interval" if target == "quartet" else "none", target=target, options=OPTIONS[target]).start()
    try:
        outcome, text = run_unit(suite, name, server.port, options.tags, skipped)
        if not server.alive():
            outcome.failed["(the server ended)"] = "".join(server.output[-40:])
    finally:
        server.close()
    if options.output:
        kept = options.output / target / f"{name.replace('/', '_')}.txt"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
    return outcome


def heading(options: argparse.Namespace) -> list[str]:
    beside = "no redis-server was at hand"
    if shutil.which("redis-server"):
        server = Server(target="redis").start()
        with Connection(server.port) as connection:
            text = connection.do("INFO", "server")
        server.close()
        beside = "beside Redis " + text.split("redis_version:")[1].split()[0]
    return [
        "## Redis' own TCL suite",
        "",
        "Written by `tests/redis/tcl/run.py`: the suite of Redis 7.0.15 against a running server,"
        f" `--tags \"{options.tags}\"`, {beside}.",
        "A difference is a test which Redis passes in the same mode and Quartet does not; each is named below with its reason.",
    ]


sys.exit(main())
