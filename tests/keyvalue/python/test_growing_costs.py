"""What a call of the key-value layer costs does not grow with the keys that it does not touch."""

from __future__ import annotations

import pytest

from harness import growth, layer_costs

FEW_KEYS, MANY_KEYS = 1_000, 100_000


@pytest.mark.slow
def test_what_a_call_costs_does_not_grow(fdb, keyvalue_server):
    database = fdb.open(keyvalue_server.cluster_file)
    prefixes = {False: "few", True: "many"}
    for large, count in ((False, FEW_KEYS), (True, MANY_KEYS)):
        layer_costs.fill_keys(fdb, database, prefixes[large], count)
    lines = {large: layer_costs.keyvalue_lines(fdb, database, prefix) for large, prefix in prefixes.items()}
    assert growth.grown_lines(keyvalue_server, lines) == {}, "seconds on few and on many"
