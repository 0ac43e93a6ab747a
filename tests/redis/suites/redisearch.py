"""RediSearch's own tests (RLTest, against a server that runs already), a file at a time.

The checkout has a `.venv` with RLTest, redis 6, numpy, scipy, ml-dtypes, packaging, distro, deepdiff, faker and gevent. Left out is what
looks inside the original: tests that send debug commands, FT.CONFIG or a module's arguments, restart the server, or want one of a cluster.
FT.ADD and FT.DROP, which have gone out of use with 2.0 and are not served, become HSET and FT.DROPINDEX where that says the same (`redisearch_run`).

    test_tags:testTagIndex:
            [PASS]                     and [FAIL], [ERROR], [SKIP]
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from outcome import Outcome, checked, run_program

TITLE = "RediSearch"
ABOUT = "RediSearch (075d9f3), the tests that do not look inside it"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
# The original's default, which tests take for granted.
SETTINGS = {"search-on-timeout": "return"}
UNITS = """
test test_aggregate test_aggregate_count test_aggregate_params test_json test_json_error_handling test_json_multi_geo test_json_multi_numeric
test_json_multi_tag test_json_multi_text test_vecsim test_tags test_filter test_filter_no_field_refs test_hybrid
test_hybrid_apply_filter test_hybrid_dialect test_hybrid_distance test_hybrid_field_validation test_hybrid_filter
test_hybrid_groupby test_hybrid_json test_hybrid_linear test_hybrid_load test_hybrid_response_format
test_hybrid_vector test_hybrid_vector_normalizer test_hybrid_yield
test_groupby_collect test_groupby_collect_distinct test_groupby_collect_limits
""".split()

# What a test that looks inside says somewhere in its text, or in that of a function of its file that it calls.
LOOKS_INSIDE = re.compile(
    r"debug_cmd|FT\.DEBUG|config_cmd|FT\.CONFIG|moduleArgs|set_max_dialect|forceInvokeGC|forceBGInvokeGC|skip\(cluster=False|skipOnExistingEnv"
    r"|restart_and_reload|reloadingIterator|dumpAndReload|WORKERS|WorkersThpoolStats|runDebugQuery|[\"']_FT\.|TEST_RDBS|MARK-INTERNAL-CLIENT"
)
LINE = re.compile(r"^\s*(\S+?):(\S+?):?\s*$")
BECAME = re.compile(r"^\s+\[(PASS|FAIL|ERROR|SKIP)\]")


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def selected(path: Path) -> list[str]:
    """Names of the tests of a file that do not look inside."""
    text = path.read_text()
    lines = text.splitlines()
    functions = [node for node in ast.parse(text).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    texts = {node.name: "\n".join(lines[min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1 : node.end_lineno]) for node in functions}

    def looks_inside(name: str, seen: set[str]) -> bool:
        if LOOKS_INSIDE.search(texts[name]):
            return True
        called = [other for other in texts if other not in seen and re.search(rf"\b{other}\(", texts[name])]
        return any(looks_inside(other, seen | {name, *called}) for other in called)

    return [node.name for node in functions if node.name.lower().startswith("test") and not looks_inside(node.name, {node.name})]


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    folder = suite / "tests" / "pytests"
    names = selected(folder / f"{unit}.py")
    runner = Path(__file__).with_name("redisearch_run.py")
    command = [str(suite / ".venv/bin/python"), str(runner), "--env", "existing-env", "--existing-env-addr", f"127.0.0.1:{port}"]
    command += ["--allow-unsafe", "--no-progress", "-v"]
    command += [word for name in names for word in ("-t", f"{unit}.py:{name}")]
    text, ended = run_program(command, folder, {"REJSON": "1", "PYTHONUNBUFFERED": "1"})
    return checked(parse(text), text, ended), text


def parse(text: str) -> Outcome:
    """What a test has found stands in front of its name; one that ends with an error is named a second time."""
    outcome, name, told = Outcome(), "", []
    for line in text.splitlines():
        if found := LINE.match(line):
            name = found.group(2)
        elif name and (found := BECAME.match(line)):
            if found.group(1) == "PASS":
                outcome.add_passed(name)
            elif found.group(1) == "SKIP":
                outcome.ignored += 1
            elif name not in outcome.failed:
                outcome.add_failed(name, "\n".join(told))
            name, told = "", []
        elif "(OK):" not in line:
            told.append(line)
    return outcome
