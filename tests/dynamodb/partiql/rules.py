"""What may differ between DynamoDB Local and Quartet: each rule by its name, with the reason why ours is right.

A rule sees the statement, both outcomes and a way to run another statement at Local. It explains a difference only if it is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .statements import Statement


@dataclass(frozen=True)
class Outcome:
    """`kind` is "ok" or the exception's name; `text` its message; `items` what was returned, in canonical form."""

    kind: str
    text: str = ""
    items: tuple = ()
    tables: tuple = ()

    @property
    def is_ok(self) -> bool:
        return self.kind == "ok"


@dataclass(frozen=True)
class Case:
    statement: Statement
    local: Outcome
    ours: Outcome
    ask_local: Callable[[str], Outcome]


@dataclass(frozen=True)
class Rule:
    name: str
    reason: str
    explains: Callable[[Case], bool]


def local_fails(case: Case) -> bool:
    return case.local.kind == "InternalFailure"


def overlaps(case: Case) -> bool:
    return case.local.is_ok and "Overlapping conditions with range keys" in case.ours.text


def order_of_partitions(case: Case) -> bool:
    return case.local.is_ok and "Must have hash key in ORDER BY clause" in case.ours.text


def value_before_key(case: Case) -> bool:
    mirrored = re.sub(r"(\S+) < sk\b", r"sk > \1", case.statement.text)
    if mirrored == case.statement.text or not case.ours.is_ok:
        return False
    there = case.ask_local(mirrored)
    return there.items == case.ours.items or member_behind_element(Case(case.statement, there, case.ours, case.ask_local))


def modified_parts(case: Case) -> bool:
    if not (case.local.is_ok and case.ours.is_ok and "MODIFIED" in case.statement.text) or case.local.tables != case.ours.tables:
        return False
    names = lambda outcome: [sorted(dict(item)) for item in outcome.items]
    return names(case.ours) == names(case.local) or not case.ours.items


def index_key_type(case: Case) -> bool:
    return case.local.is_ok and ("Type mismatch for Index Key" in case.ours.text or "secondary index key to unsupported type" in case.ours.text)


def type_of_key(case: Case) -> bool:
    tests = r"\b(pk|sk|g)\"? IS\b|attribute_type\(\"?(pk|sk|g)\b"
    texts = ("Condition parameter type does not match schema type", "Key attribute's data type should match")
    return bool(re.search(tests, case.statement.text, re.I)) and case.local.kind == "ValidationException" and any(text in case.local.text for text in texts)


def key_to_be_updated(case: Case) -> bool:
    return case.local.kind == "ConditionalCheckFailedException" and "This attribute is part of the key" in case.ours.text


def operand_not_needed(case: Case) -> bool:
    texts = ("refers to an attribute that does not exist in the item", "An operand in the update expression has an incorrect data type")
    return "if_not_exists" in case.statement.text and case.ours.is_ok and any(text in case.local.text for text in texts)


def key_beside_value(case: Case) -> bool:
    others = r"\bIN\s*(?:\([^)]*|\[[^\]]*|<<[^>]*)|\bBETWEEN\s.*?\bAND\s+\S+"
    beside = " ".join(re.findall(others, case.statement.text, re.I))
    refused = "Condition parameter type does not match schema type" in case.local.text
    return case.ours.is_ok and refused and bool(re.search(r"\b(pk|sk|g)\b", beside))


def unchecked_value_of_key(case: Case) -> bool:
    texts = ("Key attribute's data type should match", "Condition parameter type does not match schema type", "cannot contain an empty string value")
    is_spared = re.search(r"\bOR\b|\b(pk|sk)\"? (=|<>|[<>]=?) [a-z\"]", case.statement.text, re.I)
    return case.local.is_ok and any(text in case.ours.text for text in texts) and bool(is_spared)


def key_within_test(case: Case) -> bool:
    within = re.search(r"\(\s*\"?(pk|sk)\"?\s*=[^)]*\)\s*=", case.statement.text)
    return bool(within) and "Multiple conditions on same key" in case.local.text


def order_of_scan(case: Case) -> bool:
    return case.local.is_ok and "Must have at least one non-optional hash key condition" in case.ours.text


def forgotten_range(case: Case) -> bool:
    """True if Local's items are ours and more, the statement asks for a part of the range key and of several partitions or of all."""
    text = case.statement.text
    is_asked = bool(re.search(r"\bsk\b.*\bAND\b|\bAND\b.*\bsk\b", text, re.I))
    is_single = bool(re.search(r"\bpk = \S+|\S+ = pk\b", text)) and not re.search(r"\bOR\b|\bIN\b", text, re.I)
    if is_single or not (is_asked and case.local.is_ok and case.ours.is_ok):
        return False
    left = list(case.local.items)
    return all(item in left and (left.remove(item) or True) for item in case.ours.items)


def member_behind_element(case: Case) -> bool:
    columns = case.statement.text.split("FROM")[0]
    return case.local.is_ok and case.ours.is_ok and bool(re.search(r"\]\s*[.\[]", columns)) and len(case.local.items) == len(case.ours.items)


RULES = (
    Rule("local fails", "Local answers that it failed within (500), which the service is not known to do; Quartet answers", local_fails),
    Rule("overlapping alternatives", "recorded from the service, October 2026 (paritysuite partiqlGrammar, whereOverlap): it refuses them; Local reads them", overlaps),
    Rule("order of several partitions", "Local sorts within each partition only, so what it returns is in no order at all", order_of_partitions),
    Rule("value before a range key", "Local takes `1 < sk` for `sk < 1`; the service takes the value on the left (recorded for Query), and Local agrees with the mirrored statement", value_before_key),
    Rule("parts modified", "Local returns whole attributes for MODIFIED, and for UPDATED_OLD of UpdateItem too, where recordings of the service have only the parts written", modified_parts),
    Rule("type of an index attribute", "Local lets an UPDATE give an index attribute a type that the index does not have; the service refuses it", index_key_type),
    Rule("type of a key attribute asked for", "Local takes the name of the type for a value of the key and refuses it", type_of_key),
    Rule("key to be updated", "Local looks at the condition first; what is wrong whatever the item is comes before it, as in UpdateItem", key_to_be_updated),
    Rule("operand that is not needed", "Local evaluates the second operand of if_not_exists where the first is there; the documents take it only otherwise", operand_not_needed),
    Rule("key beside a value", "Local takes other members of IN and the other bound of BETWEEN for values of the key; they are not compared with it", key_beside_value),
    Rule("value of a key unchecked", "Local refuses comparisons of a key with what no key can be, but not in some alternatives, nor beside a key that is compared with another attribute", unchecked_value_of_key),
    Rule("key within a test", "Local takes an equality that is an operand, `(pk = 'a') = true`, for another condition on the key", key_within_test),
    Rule("order of a scan", "what Local returns is in the order of its hashes, whatever ORDER BY says; the service's words are those with which Local refuses other Scans", order_of_scan),
    Rule("forgotten range", "Local forgets the condition on the range key where no single partition is read and there is a further condition", forgotten_range),
    Rule("member behind an element", "Local shows `l[2].k` under `k` or under `l[2]`, depending on the columns beside it; Quartet always under `k`", member_behind_element),
)


def explanation(case: Case) -> str | None:
    """Names the first rule that explains why the outcomes differ."""
    return next((rule.name for rule in RULES if rule.explains(case)), None)
