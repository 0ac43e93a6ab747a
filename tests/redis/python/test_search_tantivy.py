"""SEARCH.* beside what Tantivy answered to the same: hits, scores, buckets and figures (`tests/tantivy/tantivy_answers.py`)."""

from __future__ import annotations

import json
import sys

import pytest

from harness.resp import Connection
from harness.server import ROOT

sys.path.insert(0, str(ROOT / "tests" / "tantivy"))

from tantivy_answers import RECORDED, differences  # noqa: E402


@pytest.mark.quartet_only
def test_filters_and_aggregations_are_answered_as_tantivy_answers_them(fresh_server):
    lines = list(map(json.loads, RECORDED.read_text().splitlines()))
    with Connection(fresh_server.port) as connection:
        wrong = differences(lines, connection.do)
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(wrong[:10])
