"""What was observed at FoundationDB 7.3.79, through its Python binding, is what Quartet does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness.target import OVER_A_CLUSTER

from .observed import Program

OBSERVED = [json.loads(line) for line in (Path(__file__).parent.parent / "observed.jsonl").read_text().splitlines()]
# What came out by luck of timing says nothing.
FACTS = [fact for fact in OBSERVED if not fact.get("timing_dependent")]

# Differences on purpose, each with its reason.
DIFFERENT = {
    190: "ranges of up to a hundred rows are measured and not estimated; an empty range has no split points in between",
    191: "split points come from exact counts; the original's are guesses below a few megabytes",
    202: "every write is a write conflict: a reader may be refused who need not be",
    240: "versions are microseconds since 1970, so 10**15 lies in the past (1007); one ahead of them is in test_refusals.py",
}
if OVER_A_CLUSTER:
    DIFFERENT[184] = "the shared log takes transactions of up to 4 MiB"


# What they show needs a commit that is still under way when the next call comes, and ours may be quicker than that: one of several tries shows it.
DURING_COMMIT = {fact["id"] for fact in FACTS if "outstanding commit" in fact["description"]}
TRIES = 1000


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['id']}-{fact['group']}")
def test_a_fact(fdb, database, fact):
    program = Program(fdb, database)
    outcome = program.run(fact["steps"])
    for _ in range(TRIES if fact["id"] in DURING_COMMIT else 0):
        if outcome == fact["result"]:
            break
        outcome = program.run(fact["steps"])
    if fact["id"] in DIFFERENT:
        assert outcome != fact["result"], "it agrees now: take it off the list"
    else:
        assert outcome == fact["result"], fact["description"]
