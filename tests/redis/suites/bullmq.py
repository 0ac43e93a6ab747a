"""BullMQ's own suite (vitest, over ioredis), a file at a time, with thirty seconds a test instead of ten: the machine may be busy.

     ✓ tests/bulk.test.ts > bulk jobs > should process jobs 125ms     passed
     × …                                                              failed; ` FAIL  …` at the end says how
     ↓ …                                                              skipped

The checkout has its packages (`npm ci`), its scripts (`npm run pretest`) and, for child processes, `dist/cjs` (`npm run tsc:all`, `copy:lua`,
`copy:includes:lua`). The files of other clients, of PostgreSQL and of
clusters are left out, as BullMQ leaves them out itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from outcome import Outcome, checked, run_program

TITLE = "BullMQ"
ABOUT = "BullMQ 6.2.0 (352d3c7) over ioredis, thirty seconds a test"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": [], "redis": []}
UNITS = """
async_fifo_queue bulk child-pool child_stdio_null clean clean.redis concurrency connection connection-closed-error deduplication delay
delay.redis events events.redis flow flow.redis getters getters.redis ioredis-client job job.redis job_cancellation
job_cancellation_advanced job_scheduler job_scheduler.redis job_scheduler_stress lock_manager metrics obliterate obliterate.redis
pause queue queue.redis rate_limiter sandboxed_process script_loader scripts stalled_jobs telemetry_interface worker worker.redis
""".split()

CONFIGURATION_OF = {"connection": "ioredis", "sandboxed_process": "ioredis", "ioredis-client": "ioredis"}
LINE = re.compile(r" ([✓×↓]) \S+\.test\.ts > (.*?)(?: \d+ms)?$")
FAILURE = re.compile(r" FAIL  \S+\.test\.ts(?: > (.*))?$")


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    configuration = f"vitest.{CONFIGURATION_OF[unit]}.config.ts" if unit in CONFIGURATION_OF else "vitest.config.ts"
    command = ["npx", "vitest", "run", "--no-file-parallelism", "--config", configuration, "--reporter=verbose"]
    command += ["--testTimeout=30000", "--hookTimeout=30000", f"tests/{unit}.test.ts"]
    text, ended = run_program(command, suite, {"NO_COLOR": "1", "REDIS_PORT": str(port)})
    return checked(parse(text), text, ended), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    told = failures(text)
    for line in text.splitlines():
        if not (found := LINE.match(line)):
            continue
        mark, name = found.groups()
        if mark == "✓":
            outcome.add_passed(name)
        elif mark == "×":
            outcome.add_failed(name, told.get(name, ""))
        else:
            outcome.ignored += 1
    return outcome


def failures(text: str) -> dict[str, str]:
    told: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if found := FAILURE.match(line):
            lines = told.setdefault(found.group(1) or "", [])
        elif line.startswith("⎯"):
            lines = []
        else:
            lines.append(line)
    return {name: "\n".join(lines).strip() for name, lines in told.items()}
