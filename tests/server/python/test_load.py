"""Data larger than the budget of memory, written as fast as clients can: the short form of the row `load` of benchmarks/storage.py.

Seen: with 512 MiB, after 2.7 million keys every write was refused for good, because what had not been flushed yet was bounded by bytes of the log
beside the budget and not as a share of it.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from harness.server import ROOT, binary

sys.path.insert(0, str(ROOT / "benchmarks"))

import load  # noqa: E402

pytestmark = pytest.mark.quartet_only

BUDGET = 64 << 20


@pytest.mark.parametrize(
    ("layer", "clients", "megabytes", "what"),
    [
        ("redis", 1, 64, "nothing"),
        ("redis", 20, 24, "nothing"),
        ("dynamodb", 8, 16, "nothing"),
        ("fauna", 8, 16, "nothing"),
        ("keyvalue", 8, 24, "nothing"),
        ("redis", 4, 24, "backup"),
        ("redis", 4, 24, "snapshot"),
    ],
)
def test_nothing_is_refused_for_what_is_not_flushed(tmp_path, layer, clients, megabytes, what):
    options = ["--memory-bytes", str(BUDGET), "--durability", "interval"]
    told = load.measured(SimpleNamespace(binary=binary()), str(tmp_path), layer, clients, megabytes, [], options, what)
    assert (told["refused"], told["ended"], told["wrong"]) == (0, 0, 0), told
    assert told["acknowledged"] == told["rows"]
    assert told["pace"] > 0, "it was never flushed"
    assert told["memory"] < BUDGET * 9 / 8 + (32 << 20), told
