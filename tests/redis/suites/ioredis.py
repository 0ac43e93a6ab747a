"""ioredis' own functional tests (mocha), a file at a time.

The reporter `json-stream` writes a line a test as it ends: `["pass", {…}]` or `["fail", {…}]`. After each test the suite itself flushes
the server, and kills every connection. The checkout has its packages (`npm ci`).
"""

from __future__ import annotations

import json
from pathlib import Path

from outcome import Outcome, checked, run_program

TITLE = "ioredis"
ABOUT = "ioredis 6 (dfd5428), `test/functional` without `cluster`, `sentinel` and TLS, twenty seconds a test"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": [], "redis": []}
UNITS = """
auth autopipelining blocking_timeout client_info commandTimeout connection disconnection duplicate elasticache exports fatal_error
hash_field_subkey_notifications hgetall lazy_connect maxRetriesPerRequest monitor pipeline protocol_downgrade pub_sub ready_check
reconnect_on_error reply_mapping scan_stream scripting select send_command show_friendly_error_stack socketTimeout spub_ssub
string_numbers tracing transaction transformer watch-exec commands/*
""".split()


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    command = ["npx", "mocha", "--no-experimental-strip-types", "-r", "ts-node/register", "--exit", "--reporter", "json-stream"]
    command += ["--timeout", "20000", "test/helpers/*.ts", f"test/functional/{unit}.ts"]
    text, ended = run_program(command, suite, {"TS_NODE_TRANSPILE_ONLY": "true", "NODE_ENV": "test"})
    return checked(parse(text), text, ended), text


def parse(text: str) -> Outcome:
    outcome = Outcome()
    for line in text.splitlines():
        if line.startswith('["pass",'):
            outcome.add_passed(json.loads(line)[1]["fullTitle"].strip())
        elif line.startswith('["fail",'):
            test = json.loads(line)[1]
            outcome.add_failed(test["fullTitle"].strip(), f"{test.get('err')}\n{test.get('stack')}")
        elif line.startswith('["end",'):
            outcome.ignored = json.loads(line)[1]["pending"]
    return outcome
