"""LlamaIndex' vector store for Redis. Its stores of documents, indexes, keys and chats have no tests that ask a server.

The checkout is `llama-index-integrations/vector_stores/llama-index-vector-stores-redis` and has a `.venv` with that package, pytest,
pytest-asyncio and pytest-timeout. Two of the tests want the first of two equally near nodes, whose keys are random: here these decide,
so each passes in one run of two (`--runs 8`).
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins

TITLE = "LlamaIndex"
ABOUT = "the vector store of LlamaIndex for Redis, tests of 0.6.2, run with 0.9.0 and redisvl 0.4"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = ["test_vector_stores_redis"]


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    return run_file_with_stand_ins(suite, f"tests/{unit}.py", port, [], {})
