"""What may differ between DynamoDB Local and Quartet: each rule by its name, with the reason why ours is right.

A rule sees the statement, both outcomes and a way to run another statement at Local. It explains a difference only if it is true.
Where both refuse a statement in other words, a rule of texts sees the two texts.
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


# ---- texts of refusals


@dataclass(frozen=True)
class TextRule:
    name: str
    reason: str
    explains: Callable[[str, str], bool]


OVERLAP = re.compile(r"Two document paths overlap .*; path one: (\[.*\]), path two: (\[.*\])")
TYPE_NAMES = re.compile(r"Invalid attribute type name found; type: (.*), valid types: {(.*)}")


def order_of_paths(local: str, ours: str) -> bool:
    found = OVERLAP.match(local), OVERLAP.match(ours)
    return all(found) and sorted(found[0].groups()) == sorted(found[1].groups())


def order_of_types(local: str, ours: str) -> bool:
    found = [TYPE_NAMES.match(text) for text in (local, ours)]
    return all(found) and found[0][1] == found[1][1] and sorted(found[0][2].split(",")) == sorted(found[1][2].split(","))


def pairs(*known: tuple[str, str]) -> Callable[[str, str], bool]:
    """True for a text of Local and one of ours that begin as one of the pairs do."""
    return lambda local, ours: any(local.startswith(one) and ours.startswith(other) for one, other in known)


RECORDED = pairs(
    ("DynamoDB only supports precision up to 38 digits", "Attempting to store more than 38 significant digits in a Number"),
    ("Input collection contains duplicates", "One or more parameter values were invalid: Input collection ["),
    ("Statement wasn't well formed, can't be processed: ", "1 validation error detected: Value '' at 'statement' failed to satisfy constraint"),
)
KEY_TYPE = ("Key attribute's data type should match its data type in table's schema: Key ", "One or more parameter values were invalid: Condition parameter type does not match schema type")
OTHER_WORDS = pairs(
    ("Unsupported operation: Typed", "Unsupported operation: IsType"),
    ("Ion Literals are not supported: ", "Ion Literals are not supported: "),
    ("Key value must be of type S, N, or B. Key name: ", KEY_TYPE[0]),
    KEY_TYPE,
    KEY_TYPE[::-1],
    ("Incorrect operand type for operator or function; operator or function: list_append, operand type: {", "Incorrect operand type for operator or function; operator or function: list_append, operand type: N"),
    ("Unsupported clause: ", "Statement wasn't well formed, can't be processed: "),
    ("Invalid attribute value type", "One or more parameter values were invalid: Type mismatch for Index Key "),
)


# The kinds of refusals that Local has words for, and those that recordings of the service have in their place.
KINDS = frozenset(
    (
        "AT is not supported in insert statements",
        "Aliasing is not supported",
        "An operand in the update expression has an incorrect data type",
        "Changing item's hierarchy while reading isn't supported",
        "Duplicate identifiers in select clause",
        "Duplicate keys in tuple",
        "Duplicate primary key exists in table",
        "DynamoDB only supports precision up to 38 digits",
        "EXISTS can only be used in ExecuteTransaction write requests.",
        "Empty bags are not supported",
        "Expected '*' after ( MODIFIED | ALL ) ( NEW | OLD ) in RETURNING clause",
        "IN operator must have a left hand argument of type Variable Reference and right hand argument of type Seq with at least one member",
        "IS operator is not supported in update expressions",
        "Incorrect number of operands for operator or function",
        "Incorrect operand type for operator or function",
        "Input collection contains duplicates",
        "Invalid attribute type name found",
        "Invalid attribute value type",
        "Invalid returning clause",
        "Ion Literals are not supported",
        "Key attribute should be present in the item",
        "Key attribute's data type should match its data type in table's schema",
        "Key value must be of type S, N, or B",
        "List index is not within the allowable range",
        "MISSING must be compared using IS operator",
        "Multiple conditions on same key pk",
        "Multiple conditions on same key sk",
        "Must have WHERE clause in the statement when using ORDER BY clause.",
        "Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause.",
        "Number overflow",
        "One or more parameter values are not valid",
        "One or more parameter values were invalid",
        "Operator or function requires a document path",
        "Path component cannot be an empty string",
        "RETURNING",
        "SET_ADD",
        "SET_DELETE",
        "Statement wasn't well formed, can't be processed",
        "The BETWEEN operator requires same data type for lower and upper bounds",
        "The BETWEEN operator requires upper bound to be greater than or equal to lower bound",
        "The argument to NOT must be a Type or Expression",
        "The arguments to AND/OR must be Expressions",
        "The conditional request failed",
        "The document path provided in the update expression is invalid for update",
        "The first argument to SET_ADD must equal the assignment value",
        "The first argument to SET_DELETE must equal the assignment value",
        "The first operand must be distinct from the remaining operands for this operator or function",
        "The function is not allowed in a condition expression",
        "The function is not allowed in an update expression",
        "The left hand side argument to IS must be a Variable Reference, Literal, or Path",
        "The provided expression refers to an attribute that does not exist in the item",
        "The second argument to SET_ADD must be a value with type SET",
        "The second argument to SET_DELETE must be a value with type SET",
        "This operation is not supported on an index",
        "Tuple keys must be of type String",
        "Two document paths overlap with each other",
        "Unexpected path component",
        "Unrecognized function",
        "Unsupported clause",
        "Unsupported data type",
        "Unsupported data type for IS operator",
        "Unsupported data type in Bag",
        "Unsupported operation",
        "Unsupported operator in Condition Expression",
        "Unsupported operator in Update Expression",
        "Variable reference",
        "Where clause does not contain a mandatory equality on all key attributes",
        "Attempting to store more than 38 significant digits in a Number",
        "Overlapping conditions with range keys are not supported in where clause",
        "1 validation error detected",
    )
)


def kind_of(text: str) -> str:
    """The beginning of a text that all refusals of one kind share."""
    text = re.sub(r"^(Variable reference|RETURNING|SET_ADD|SET_DELETE) .*", r"\1", text)
    return re.split(r"[:;{\[<]| at \d| under root|\. |-1\b", text)[0].strip()


def another_fault(local: str, ours: str) -> bool:
    one, other = OVERLAP.match(local), OVERLAP.match(ours)
    is_other = kind_of(local) != kind_of(ours) or local.split(" at ")[0] != ours.split(" at ")[0]
    is_same_overlap = bool(one and other) and sorted(one.groups()) == sorted(other.groups())
    return is_other and not is_same_overlap and kind_of(local) in KINDS and kind_of(ours) in KINDS


TEXT_RULES = (
    TextRule("order of two paths", "Local names overlapping paths in the order of its hashes; a recording has them as they are written", order_of_paths),
    TextRule("order of type names", "Local's names come in the order of its hashes; a recording has Quartet's", order_of_types),
    TextRule("recorded words", "a recording of the service has Quartet's", RECORDED),
    TextRule("other words", "the same fault, for which no recording of the service is known", OTHER_WORDS),
    TextRule("another fault", "a statement with several faults is refused for one of them; which one the service reports is not known", another_fault),
)


def text_explanation(local: str, ours: str) -> str | None:
    """Names the first rule that explains why both refuse in other words."""
    return next((rule.name for rule in TEXT_RULES if rule.explains(local, ours)), None)
