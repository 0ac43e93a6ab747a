"""langgraph-checkpoint-redis' suite, a file at a time.

The checkout has a `.venv` with langgraph-checkpoint-redis of the checkout, langgraph, langchain-openai, langmem, pympler, aiofiles, aioconsole,
cryptography, testcontainers, pytest, pytest-asyncio, pytest-mock and pytest-timeout. Files left out need a cluster or a sentinel.
"""

from __future__ import annotations

from pathlib import Path

from outcome import Outcome
from pytest_files import run_file_with_stand_ins

TITLE = "langgraph-checkpoint-redis"
ABOUT = "langgraph-checkpoint-redis 0.5.2 (32de207)"
PORT = 6379
OPTIONS: dict[str, list[str]] = {"quartet": []}
UNITS = """
test_async test_async_store test_sync test_store test_shallow_async test_shallow_sync test_checkpoint_filters test_checkpoint_ttl
test_async_search_limit test_search_limit test_async_ttl_synchronization test_ttl_synchronization test_ttl_removal test_alist_sort_order
test_async_aget_tuple_checkpoint_id test_async_shallow_checkpoint_write_ttl test_blob_encoding_error_handling test_checkpoint_metadata_operations
test_checkpoint_serialization test_decode_responses test_hitl_ttl_regression test_interruption test_key_registry_integration
test_issue_104_delete_write_keys_zset test_issue_113_interrupt_serialization test_issue_116_async_blob_access
test_issue_124_redis7_compatibility test_issue_125_custom_checkpoint_prefixes test_issue_128_async_store_message_serialization
test_issue_128_store_message_serialization test_issue_133_hitl_shallow test_issue_150_ashallow_adelete_thread test_issue_159_aprune_keep_last
test_issue_162_blob_gc test_issue_187_latest_pointer_prefix_isolation test_issue_196_store_delete_escaping test_issue_201_delta_snapshot
test_issue_51_adelete_thread test_issue_85_error_recovery test_issue_85_message_coercion test_issue_85_streaming
test_issue_87_async_deserialization test_issue_99_custom_store_prefixes test_numeric_version_fix test_numeric_version_issue
test_parent_child_checkpoints test_pending_sends_base64_decode test_pydantic_state test_semantic_search_keys test_send_serialization
test_shallow_blob_attribute test_shallow_pipeline_bug test_shallow_ulid_ttl_cache test_streaming test_streaming_message_ids test_streaming_modes
test_subgraph_key_parsing test_uuid6_checkpoint_id test_middleware_semantic_cache test_middleware_semantic_router test_middleware_tool_cache
test_middleware_conversation_memory test_langmem_serialization test_crossslot_integration
""".split()


def copy_of(checkout: Path, folder: Path) -> Path:
    return checkout


def run_unit(suite: Path, unit: str, port: int, skipped: list[str]) -> tuple[Outcome, str]:
    return run_file_with_stand_ins(suite, f"tests/{unit}.py", port, [], {"OPENAI_API_KEY": "none"})
