"""`python tests/redis/suites/run.py SUITE CHECKOUT [UNIT...]`: a public suite against Quartet, beside redis-server if there is one.

SUITE is a module beside this one: tcl (Redis' own), bullmq, redis_py, ioredis, go_redis, and those of search: search_redis_py,
search_go_redis, search_node_redis, search_jedis, redisearch, redisvl, langgraph, langchain, llama_index, redis_om,
redis_om_node; it says what its CHECKOUT has to hold. Nothing of a checkout is kept here. Each unit gets a fresh server of each kind. A unit with a difference that has no reason is run again, on both
servers, up to three times in all; a test that passes once counts as passed. Ends with an error unless Quartet passes what Redis passes, apart from `exceptions/SUITE.txt`.

    --report FILE     writes the outcome as Markdown; a run of some units replaces what FILE says of them
    --output FOLDER   keeps what the suite printed: FOLDER/SERVER/UNIT.txt
    --runs COUNT      of a unit with a difference that has no reason, at most (3)
    --all             runs the exceptions of tcl against Quartet too. Otherwise they are left out, because a test that ends in the middle
                      leaves an open transaction, a pause or keys behind, over which good ones stumble

A suite that knows no other port than 6379 runs in a network of its own (`unshare`), beside whatever listens there already.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from harness.resp import Connection  # noqa: E402
from harness.server import Server  # noqa: E402
from outcome import Outcome  # noqa: E402
from report import Exceptions, Report, Unit, faults  # noqa: E402

SUITES = ["tcl", "bullmq", "redis_py", "ioredis", "go_redis"]
# Of search, which the redis-server of a distribution does not have, so they are run without a peer.
SUITES += ["search_redis_py", "search_go_redis", "search_node_redis", "search_jedis", "redisearch", "redisvl", "langgraph", "langchain"]
SUITES += ["llama_index", "redis_om", "redis_om_node"]
OWN_NETWORK = "QUARTET_SUITE_HAS_OWN_NETWORK"


def main() -> int:
    options = arguments()
    suite = importlib.import_module(options.suite)
    if suite.PORT:
        enter_own_network()
    exceptions = Exceptions(HERE / "exceptions" / f"{options.suite}.txt")
    with tempfile.TemporaryDirectory(prefix="quartet-suite-") as folder:
        options.checkout = suite.copy_of(options.checkout.resolve(), Path(folder))
        units = [judge(suite, name, options, exceptions) for name in options.units or suite.UNITS]
    found = faults(units, exceptions)
    print("\n".join(found))
    passed = sum(len(unit.quartet.passed) for unit in units)
    explained = sum(len(unit.differences()) for unit in units)
    print(f"{passed} passed, {explained} differences from Redis, {len(found)} to mend in Quartet or in exceptions/{options.suite}.txt")
    return 1 if found else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("units", nargs="*")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all", action="store_true")
    return parser.parse_intermixed_args()


def enter_own_network() -> None:
    if OWN_NETWORK in os.environ:
        return
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, *sys.argv]
    os.execvpe("unshare", ["unshare", "--map-root-user", "--net", *inside], os.environ | {OWN_NETWORK: "yes"})


def judge(suite, name: str, options: argparse.Namespace, exceptions: Exceptions) -> Unit:
    unit = compare(suite, name, options, exceptions)
    for _ in range(options.runs - 1):
        if not exceptions.explain(unit):
            unit = unit.with_another_run(compare(suite, name, options, exceptions))
    beside = f"Redis {len(unit.redis.passed)}, " if unit.redis else ""
    print(f"{name}: {beside}Quartet {len(unit.quartet.passed)} passed, {len(unit.differences())} differences", flush=True)
    if options.report:
        write_report(suite, unit, exceptions, options)
    return unit


def compare(suite, name: str, options: argparse.Namespace, exceptions: Exceptions) -> Unit:
    redis = run_against("redis", suite, name, options, []) if "redis" in suite.OPTIONS and shutil.which("redis-server") else None
    skipped = [] if options.all else exceptions.tests(name)
    return Unit(name, redis, run_against("quartet", suite, name, options, skipped))


def run_against(target: str, suite, name: str, options: argparse.Namespace, skipped: list[str]) -> Outcome:
    server = server_of(target, suite).start()
    try:
        for setting, value in getattr(suite, "SETTINGS", {}).items():
            with Connection(server.port) as connection:
                connection.do("CONFIG", "SET", setting, value)
        outcome, text = suite.run_unit(options.checkout, name, server.port, skipped)
        if not server.alive():
            outcome.add_failed("(the server ended)", "".join(server.output[-40:]))
    finally:
        server.close()
    if options.output:
        kept = options.output / target / f"{name.replace('/', '_')}.txt"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(text)
    return outcome


def server_of(target: str, suite) -> Server:
    durability = "interval" if target == "quartet" else "none"
    return Server(durability=durability, target=target, options=suite.OPTIONS[target], fixed_port=suite.PORT)


def write_report(suite, unit: Unit, exceptions: Exceptions, options: argparse.Namespace) -> None:
    """After each unit, so that a run which is cut short has told what it saw."""
    report = Report.read(options.report.read_text()) if options.report.exists() else Report({}, {})
    report.add(unit, exceptions, str(datetime.date.today()))
    options.report.write_text(report.markdown(heading(suite, options.suite, unit)))


def heading(suite, name: str, unit: Unit) -> list[str]:
    written = f"Written by `tests/redis/suites/run.py {name}`: {suite.ABOUT}"
    told = [
        f"{written}, beside Redis {redis_version() if unit.redis else '(none was at hand)'}.",
        "A difference is a test which Redis passes in the same mode and Quartet does not; each is named below with its reason.",
    ]
    if "redis" not in suite.OPTIONS:
        told = [f"{written}.", "A difference is a test that Quartet does not pass; each is named below with its reason."]
    return [f"## {suite.TITLE}", "", *told]


def redis_version() -> str:
    server = Server(target="redis").start()
    with Connection(server.port) as connection:
        text = connection.do("INFO", "server")
    server.close()
    return text.split("redis_version:")[1].split()[0]


sys.exit(main())
