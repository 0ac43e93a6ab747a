"""langchain-redis' integration suite, a file at a time.

The checkout is `libs/redis`. It has a `.venv` with langchain-redis of the checkout, langchain-openai, langcache, pytest, pytest-asyncio,
pytest-socket, pytest-timeout and syrupy, with redisvl and redis-py of its lock file, without testcontainers: then the suite takes the
server of REDIS_URL. It has embeddings of its own for who has no key of a service. The file left out needs LangCache.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins

TITLE = "langchain-redis"
ABOUT = "langchain-redis 0.2.5 (8d89e56) with redisvl 0.23 and redis-py 6.4, its integration tests"
PORT = 0
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = """
test_cache test_cache_async test_chat_message_history test_fixed_logging_reset test_ids_parameter test_index_name_collision
test_logging_reset test_redis_config test_vectorstores_hash test_vectorstores_json
""".split()


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    environment = {"REDIS_URL": f"redis://127.0.0.1:{port}", "OPENAI_API_KEY": ""}
    return run_file_with_stand_ins(suite, f"tests/integration_tests/{unit}.py", port, [], environment)
