"""go-redis' own suite (ginkgo), a file at a time.

`RE_CLUSTER` keeps it from waiting for ring shards, sentinels and a cluster before the first test; what is left out otherwise is what
needs those. `REDIS_VERSION`, by which tests skip themselves, is what INFO of the server says.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from harness.resp import Connection
from outcome import UNIT_SECONDS_MAX, Outcome, checked, run_program

TITLE = "go-redis"
ABOUT = "go-redis 9 (216593c), without rings, sentinels, clusters, TLS and modules"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": [], "redis": []}
UNITS = """
commands redis pubsub pipeline tx tx_unwatch iterator acl_commands bitmap_commands monitor race autopipeline pool internal command error
csc_e2e script_server_sha_integration json
""".split()

# Specs of these files that dial a cluster, a sentinel, a ring or a shard's port.
ELSEWHERE = r"ClusterClient|\bCluster\b|Sentinel|\bRing\b|Failover"


def copy_of(checkout: Path, folder: Path) -> Path:
    """The compiled suite beside its test data, which it opens from the working directory."""
    text, ended = run_program(["go", "test", "-c", "-o", str(folder / "go-redis.test"), "."], checkout)
    if not (folder / "go-redis.test").exists():
        raise SystemExit(f"go-redis' suite does not compile:\n{text}")
    (folder / "checkout").symlink_to(checkout.resolve())
    return folder


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    report = suite / "report.json"
    report.unlink(missing_ok=True)
    command = [str(suite / "go-redis.test"), "-test.run", "^TestGinkgoSuite$", "-test.timeout", "0", "--ginkgo.no-color"]
    command += ["--ginkgo.timeout", f"{UNIT_SECONDS_MAX - 60}s", "--ginkgo.grace-period", "10s", "--ginkgo.seed", "1"]
    command += ["--ginkgo.json-report", str(report), "--ginkgo.focus-file", f"/{unit}_test.go$", "--ginkgo.skip", ELSEWHERE]
    environment = {"RE_CLUSTER": "true", "RCE_DOCKER": "false", "REDIS_PORT": str(port), "REDIS_VERSION": version(port)}
    text, ended = run_program(command, suite / "checkout", environment)
    outcome = parse(json.loads(report.read_text())) if report.exists() else Outcome()
    return checked(outcome, text, ended), text


def version(port: int) -> str:
    with Connection(port) as connection:
        return re.search(r"redis_version:(\d+\.\d+)", connection.do("INFO", "server")).group(1)


def parse(suites: list[dict]) -> Outcome:
    outcome = Outcome()
    for spec in suites[0]["SpecReports"] or []:
        if spec["LeafNodeType"] != "It":
            continue
        name = " ".join([*(spec["ContainerHierarchyTexts"] or []), spec["LeafNodeText"]]).strip()
        if spec["State"] == "passed":
            outcome.add_passed(name)
        elif spec["State"] in ("skipped", "pending"):
            # Also what the selection of this run leaves out; of those there is no time.
            outcome.ignored += spec["RunTime"] > 0
        else:
            outcome.add_failed(name, (spec.get("Failure") or {}).get("Message", spec["State"]))
    return outcome
