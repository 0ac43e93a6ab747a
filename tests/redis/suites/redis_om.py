"""redis-om-python's suite, a file at a time.

The checkout has a `.venv` with redis-om of the checkout, unasync, email-validator, testcontainers, pytest, pytest-asyncio and pytest-timeout,
and the folders that its `make sync` writes.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins

TITLE = "redis-om-python"
ABOUT = "redis-om-python (1c55400)"
# Some tests know no other.
PORT = 6380
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = """
test_bug_fixes test_cli_migrate test_datetime_date_fix test_datetime_fix test_find_query test_hash_field_expiration
test_hash_field_expiration_support test_hash_model test_json_model test_knn_expression test_oss_redis_features test_primary_key_loading
test_pydantic_integrations test_redis_type test_redisvl_integration test_schema_migrator test_tag_separator
""".split()


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    return run_file_with_stand_ins(suite, f"tests/{unit}.py", port, [], {"REDIS_OM_URL": f"redis://127.0.0.1:{port}?decode_responses=True"})
