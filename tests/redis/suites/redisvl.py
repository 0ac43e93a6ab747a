"""redisvl's integration suite, a file at a time.

The checkout has a `.venv` with redisvl of the checkout, testcontainers, pytest, pytest-asyncio, pytest-timeout, pandas and nltk. Files
left out need a cluster, a sentinel, or a service of somebody else's.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins

TITLE = "redisvl"
ABOUT = "redisvl 0.26 (0f64097), its integration tests"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = """
test_aggregation test_async_migration_v1 test_async_search_index test_batch_migration_integration test_bulk_operations test_connection
test_embedcache test_embedcache_warnings test_field_modifier_ordering_integration test_flow test_flow_async test_hybrid
test_index_gc_finalizer_integration test_index_migrator_e2e_recovery test_key_separator_handling test_llmcache test_message_history
test_migration_comprehensive test_migration_v1 test_multi_field_sorting_integration test_multi_prefix test_no_proactive_module_checks
test_query test_role_filter_get_recent test_search_index test_search_results test_semantic_router test_skip_decode_fields_integration
test_sql_redis_hash test_sql_redis_hybrid test_sql_redis_json test_stopwords_integration test_svs_integration
test_text_query_weights_integration test_unf_noindex_integration test_withsuffixtrie_integration
""".split()


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    return run_file_with_stand_ins(suite, f"tests/integration/{unit}.py", port, [], {"REDIS_URL": f"redis://127.0.0.1:{port}", "REDISVL_TEST_SVS": "1"})
