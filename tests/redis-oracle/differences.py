"""What may differ between the original and Quartet: each class of docs/search.md, what a request of it has, and what must hold
in spite of it. Where scores differ, keys and totals must not."""

from __future__ import annotations

import collections
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from random_requests import Index
from replies import Command, Hit, are_same_records, hits, in_no_order, is_error, near, page, proposals, records

ESTIMATES = ("COUNT_DISTINCTISH", "QUANTILE")
NUMBERS = ("SUM", "MIN", "MAX")
OF_NONE = (b"nan", b"inf", b"-inf")
# What is true of scores when the original is asked for one key at a time. TFIDF and BM25 count the condition on the key as a word.
SCORERS_OF_ONE_KEY = ("DISMAX", "DOCSCORE")


@dataclass
class Case:
    """A request whose answers differ, and what the index is."""

    command: Command
    theirs: object
    ours: object
    index: Index
    # Asks the original for each key alone: the keys that it finds, with their scores. None if that was not recorded.
    alone: Callable[[], dict[bytes, object] | None]
    # Whether the original refuses an aggregation of one of the keys alone. None if that was not recorded.
    is_refused_alone: Callable[[], bool | None]

    def is_about(self, name: str) -> bool:
        return self.command[0] == name

    def has_answers(self) -> bool:
        return not is_error(self.theirs) and not is_error(self.ours)

    def are_searches(self) -> bool:
        return self.is_about("FT.SEARCH") and self.has_answers()

    def has_field_that_is_none(self) -> bool:
        """Whether the query names a field that the index lacks."""
        fields = {*"tbsgnml", *("v" if self.index.vectors else ""), *("p" if self.index.has_shapes else "")}
        query = self.command[2] if isinstance(self.command[2], str) else ""
        named = (re.split(r"\|@?", names) for names in re.findall(r"@((?:[\w\\]|\|@?(?=[\w|@]+:))+)", query))
        return any(name not in fields for names in named for name in names)

    def pages(self) -> list[tuple[int, list[Hit]]]:
        return [hits(reply, self.command) for reply in (self.theirs, self.ours)]

    def tables(self) -> list[list[dict[bytes, object]]]:
        return [records(reply) for reply in (self.theirs, self.ours)]

    def is_cut(self) -> bool:
        """Whether the answer is a page of more hits, so that other scores mean other keys."""
        return page(self.command) != (0, 1000)


# ---- What must hold


def keys_are_same(case: Case) -> bool:
    """The same documents, with other scores and so in another order."""
    if not case.are_searches():
        return False
    (total, theirs), (our_total, ours) = case.pages()
    if case.is_cut():
        return total == our_total and len(theirs) == len(ours)
    return total == our_total and {hit[0] for hit in theirs} == {hit[0] for hit in ours}


def records_are_same(case: Case) -> bool:
    return case.has_answers() and are_same_records(case.command, case.theirs, case.ours)


def keys_are_there(case: Case) -> bool:
    """The same documents, whatever the totals say."""
    if not case.are_searches():
        return False
    (_, theirs), (_, ours) = case.pages()
    return case.is_cut() or {hit[0] for hit in theirs} == {hit[0] for hit in ours}


def more_is_found(case: Case) -> bool:
    """The original finds what Quartet does, and more."""
    if not case.has_answers():
        return False
    if case.is_about("FT.SPELLCHECK"):
        theirs, ours = proposals(case.theirs), proposals(case.ours)
        return theirs.keys() == ours.keys() and all(any(near(one, other) for other in theirs[word]) for word, found in ours.items() for one in found)
    if not case.is_about("FT.SEARCH"):
        return False
    (total, theirs), (our_total, ours) = case.pages()
    # In dialect 4 a total says how far the original came.
    is_total = our_total <= total or is_of_dialect("4")(case)
    return is_total and (case.is_cut() or {hit[0] for hit in ours} <= {hit[0] for hit in theirs})


def words_are_there(case: Case) -> bool:
    """The original proposes what Quartet does, and more, with other scores; it asks nothing about words that it still has."""
    theirs, ours = proposals(case.theirs), proposals(case.ours)
    return theirs.keys() <= ours.keys() and all({term for _, term in ours[word]} <= {term for _, term in theirs[word]} for word in theirs)


def more_values_are_there(case: Case) -> bool:
    return set(case.ours) <= set(case.theirs)


def less_is_found(case: Case) -> bool:
    """Quartet finds what the original does, and more."""
    if not case.are_searches():
        return False
    (total, theirs), (our_total, ours) = case.pages()
    return total <= our_total and (case.is_cut() or {hit[0] for hit in theirs} <= {hit[0] for hit in ours})


def each_key_is_right(case: Case) -> bool:
    """Asked for one key at a time, the original finds what Quartet does, and of scores that do not depend on it the same."""
    if not case.are_searches() or "INKEYS" in case.command:
        return False
    alone = case.alone()
    if alone is None:
        return False
    total, ours = case.pages()[1]
    if case.is_cut():
        return total == len(alone)
    scorer = case.command[case.command.index("SCORER") + 1] if "SCORER" in case.command else ""
    has_scores = scorer in SCORERS_OF_ONE_KEY and "WITHSCORES" in case.command
    return {hit[0] for hit in ours} == alone.keys() and (not has_scores or all(near(hit[1], alone[hit[0]]) for hit in ours))


def all_but_order_total_and_absent(case: Case) -> bool:
    """The original's hits are Quartet's; those that it lacks have no value to be sorted by."""
    if not case.are_searches():
        return False
    (_, theirs), (our_total, ours) = case.pages()
    if case.is_cut():
        return len(theirs) <= our_total
    known = {hit[0]: hit for hit in ours}
    is_lacking = len(theirs) < len(ours)
    lacked = known.keys() - {hit[0] for hit in theirs} if is_lacking else set()
    by_value = "WITHSORTKEYS" in case.command
    # It may not sort at all, and then shows no value for it either.
    is_near = all(hit[0] in known and near(hit[1], known[hit[0]][1]) and holds(known[hit[0]][3], hit[3]) for hit in theirs)
    return is_near and all(by_value and known[key][2] is None for key in lacked)


def holds(fields: dict[bytes, object] | None, others: dict[bytes, object] | None) -> bool:
    return near(fields, others) if not fields or not others else all(near(fields.get(name), value) for name, value in others.items())


def texts_are_same(case: Case) -> bool:
    """Other words are marked in the same texts."""
    if not keys_are_same(case):
        return False
    theirs, ours = ({key: {name: re.sub(b"</?b>", b"", text) for name, text in fields.items()} for key, _, _, fields in found} for _, found in case.pages())
    return theirs == ours


def names_of(command: Command, reducer: str) -> set[bytes]:
    """The names of the results of these reducers."""
    out = set()
    for at, word in enumerate(command):
        if word == "REDUCE" and command[at + 1] == reducer:
            out.add(str(command[at + 4 + int(command[at + 2])]).encode())
    return out


def all_but(*reducers: str) -> Callable[[Case], bool]:
    def holds(case: Case) -> bool:
        if not case.is_about("FT.AGGREGATE") or not case.has_answers():
            return False
        theirs, ours = map(in_no_order, without(case, *reducers))
        return near(theirs, ours)

    return holds


def without(case: Case, *reducers: str) -> list[list[dict[bytes, object]]]:
    """Both tables, without the columns of these reducers."""
    names = set().union(*(names_of(case.command, reducer) for reducer in reducers))
    return [[{name: value for name, value in row.items() if name not in names} for row in table] for table in case.tables()]


def all_but_numbers_of_none(*more: str) -> Callable[[Case], bool]:
    """As numbers of nothing 2.10 shows 0, and 8.x what has no value: nan, inf or -inf."""

    def holds(case: Case) -> bool:
        if not case.is_about("FT.AGGREGATE") or not case.has_answers():
            return False
        tables = without(case, "AVG", *ESTIMATES, *more)
        plain = ([{name: b"0" if value in OF_NONE else value for name, value in row.items()} for row in table] for table in tables)
        theirs, ours = map(in_no_order, plain)
        return near(theirs, ours)

    return holds


def all_but_groups_of_none(case: Case) -> bool:
    """A FILTER behind the groups keeps others where their number is one of nothing; the rest is the same."""
    if not case.is_about("FT.AGGREGATE") or not case.has_answers():
        return False
    names = set().union(*(names_of(case.command, reducer) for reducer in NUMBERS))
    tables = without(case, "AVG", *ESTIMATES)
    theirs, ours = (in_no_order([row for row in table if not any(row.get(name) in (b"0", *OF_NONE) for name in names)]) for table in tables)
    return near(theirs, ours)


GROUPS_AGAIN = ["GROUPBY", "1", "@r0", "REDUCE", "COUNT", "0", "AS", "c"]


def groups_again(case: Case) -> bool:
    """Groups are grouped by the number that each has."""
    return any(case.command[at : at + len(GROUPS_AGAIN)] == GROUPS_AGAIN for at in range(len(case.command)))


def all_but_like_groups(case: Case) -> bool:
    """Groups by a number that is 0 at 2.10 and nan or infinite here, or that differs in digits which are not shown: together they
    are as many."""
    if not case.has_answers():
        return False
    theirs, ours = (collections.Counter() for _ in range(2))
    for counts, table in zip((theirs, ours), case.tables(), strict=True):
        for row in table:
            counts[b"0" if row[b"r0"] in OF_NONE else row[b"r0"]] += int(row[b"c"])
    return theirs == ours


def is_refused_of_one(case: Case) -> bool:
    """Quartet refuses what one of the documents makes an error; the original shows the documents before that one."""
    if not case.is_about("FT.AGGREGATE") or is_error(case.theirs) or not is_error(case.ours):
        return False
    return str(case.ours).startswith("SEARCH_EXPR") and case.is_refused_alone() is True


def is_refused_field(case: Case) -> bool:
    """Quartet refuses a field that the query names and the index lacks; the original finds nothing in it, or refuses something else."""
    return is_error(case.ours) and "Unknown field" in str(case.ours) and (is_error(case.theirs) or case.has_field_that_is_none())


def is_accepted(case: Case) -> bool:
    """The original refuses what Quartet answers."""
    return is_error(case.theirs) and not is_error(case.ours)


def has_changed_documents(case: Case) -> bool:
    return case.index.is_json and case.index.has_changed


def members_are_same(case: Case) -> bool:
    """The same documents: the original puts a document's last member where one was removed."""
    if not case.are_searches():
        return False
    (total, theirs), (our_total, ours) = case.pages()
    of_json = lambda found: {key: {name: json.loads(text) for name, text in fields.items()} for key, _, _, fields in found}  # noqa: E731
    return total == our_total and of_json(theirs) == of_json(ours)


def first_values_are_same(case: Case) -> bool:
    """Groups by several values of a path are those of the first of them; which record shows the others depends on the order of writes."""
    if not case.is_about("FT.AGGREGATE") or not case.has_answers():
        return False
    first = lambda value: json.loads(value)[0] if isinstance(value, bytes) and value.startswith(b"[") else value  # noqa: E731
    left_out = set().union(*(names_of(case.command, reducer) for reducer in ("FIRST_VALUE", "AVG", *ESTIMATES)))
    shown = ([{name: b"0" if value in OF_NONE else first(value) for name, value in row.items() if name not in left_out} for row in table] for table in case.tables())
    theirs, ours = map(in_no_order, shown)
    return near(theirs, ours)


def is_explained_same(case: Case) -> bool:
    """But for the field's name in front of TAG values."""
    values = re.compile(rb"(TAG:@\w+ \{\n)((?:.*\n)+?)(?=\s*\}\n)")
    theirs, ours = (values.sub(lambda tag: tag[1] + re.sub(rb"@\w+:", b"", tag[2]), text) for text in (case.theirs, case.ours))
    return theirs == ours


def is_returned(case: Case) -> bool:
    return is_accepted(case) and "is not in schema" in str(case.theirs)


def is_refused_property(case: Case) -> bool:
    return not is_error(case.theirs) and is_error(case.ours) and "No such property" in str(case.ours)


def is_order_refused(case: Case) -> bool:
    refusals = ("MISSING ASC or DESC", "Property `ASC` not loaded", "Property `DESC` not loaded")
    return is_error(case.ours) and any(refusal in str(case.ours) for refusal in refusals)


def has_no_number(case: Case) -> bool:
    return is_error(case.ours) and not is_error(case.theirs) and "" in case.command


def is_refused_or_found_more(case: Case) -> bool:
    return is_accepted(case) or less_is_found(case) or more_is_found(case)


def fewer_records(case: Case) -> bool:
    """Quartet's table has all records of the original's, and more."""
    if not case.is_about("FT.AGGREGATE") or not case.has_answers():
        return False
    theirs, ours = case.tables()
    return all(any(near(record, other) for other in ours) for record in theirs)


def one_finds_all(case: Case) -> bool:
    """What one of the two finds the other finds too."""
    return less_is_found(case) or more_is_found(case)


def is_read_otherwise(case: Case) -> bool:
    """One of the two refuses it, or what one finds the other finds too."""
    return is_error(case.theirs) != is_error(case.ours) or one_finds_all(case)


def is_part_of_ours(case: Case) -> bool:
    """Whatever the original shows of a search Quartet has too; tables are the same but for what other classes of them say."""
    if case.is_about("FT.AGGREGATE"):
        return all_but_groups_of_none(case) or all_but_like_rows(case)
    if not case.are_searches():
        return False
    (_, theirs), (_, ours) = case.pages()
    return case.is_cut() or {hit[0] for hit in theirs} <= {hit[0] for hit in ours}


def all_but_like_rows(case: Case) -> bool:
    """The same groups, as far as the original shows them."""
    keys = [name.removeprefix("@").encode() for name in grouped_by(case.command)]
    theirs, ours = ([tuple(row.get(name) for name in keys) for row in table] for table in case.tables())
    return bool(keys) and set(theirs) <= set(ours)


def grouped_by(command: Command) -> list[str]:
    if "GROUPBY" not in command:
        return []
    at = command.index("GROUPBY")
    return [str(name) for name in command[at + 2 : at + 2 + int(command[at + 1])]]


# How far from a side of the one shape a corner of the other may be for the two to answer otherwise: sides of at most ten kilometres, a tenth of a
# degree from the equator, are millimetres from each other as arcs, as geodesics and as lines on the map. Corners are a kilometre apart.
SIDE_METRES_MAX = 1.0
METRES_OF_DEGREE = 111_320.0


def sides_meet_corners(case: Case) -> bool:
    """Each document that one of the two lacks has a shape with a corner on a side of the query's, or the reverse."""
    if not case.are_searches() or case.is_cut():
        return False
    (_, theirs), (_, ours) = case.pages()
    asked = case.command[case.command.index("shape") + 1]
    other = {hit[0] for hit in theirs} ^ {hit[0] for hit in ours}
    return bool(other) and all(corner_from_side(case.index.shapes.get(key.decode()), asked) <= SIDE_METRES_MAX for key in other)


def corner_from_side(shape: str | None, other: str) -> float:
    """The metres from a corner of one of them to a side of the other, where they are least."""
    if shape is None:
        return math.inf
    corners = [[tuple(map(float, pair)) for pair in re.findall(r"(-?[\d.]+) (-?[\d.]+)", text)] for text in (shape, other)]
    distances = (from_side(corner, side) for own, ring in (corners, corners[::-1]) for corner in own for side in zip(ring, ring[1:]))
    return min(distances, default=math.inf)


def from_side(corner: tuple[float, float], side: tuple[tuple[float, float], tuple[float, float]]) -> float:
    (x, y), ((ax, ay), (bx, by)) = corner, side
    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)
    along = min(max(along, 0.0), 1.0)
    return math.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay)) * METRES_OF_DEGREE


def is_refused_syntax(case: Case) -> bool:
    return is_error(case.ours) and not is_error(case.theirs) and str(case.ours).startswith("SEARCH_SYNTAX")


def is_computed(case: Case) -> bool:
    """The original refuses several values where one stands, or compares the first of them."""
    if not case.is_about("FT.AGGREGATE") or is_error(case.ours):
        return False
    return not is_error(case.theirs) or "Invalid type" in str(case.theirs) or "Could not" in str(case.theirs)


# ---- What a request has


def query_has(pattern: str) -> Callable[[Case], bool]:
    compiled = re.compile(pattern)
    return lambda case: len(case.command) > 2 and isinstance(case.command[2], str) and compiled.search(case.command[2]) is not None


# An affix, a word with wildcards or errors; not the mark for all documents.
has_pattern = query_has(r"\w\*|\*\w|%|w'")
# Written ones, or several words of which each stands for its stem too.
has_alternatives = query_has(r"[~|-]|\S\s+\S")
has_several_parts = query_has(r"\S\s+\S")


def has(*words: str) -> Callable[[Case], bool]:
    return lambda case: any(word in case.command for word in words)


TEXT_OF_PATH = re.compile(r"@[sgt]\s*[=!<>]|[=!<>]\s*@[sgtr]|strlen|split|contains|startswith|geodistance|!@")


def compares_text(case: Case) -> bool:
    expressions = [case.command[at + 1] for at, word in enumerate(case.command[:-1]) if word in ("APPLY", "FILTER")]
    return any(TEXT_OF_PATH.search(expression) for expression in expressions)


# A longitude, a latitude, a radius and its unit.
CIRCLE = re.compile(r"(-?[\d.]+) (-?[\d.]+) ([\d.]+) (km|KM|mi|m|ft)\b")
KILOMETERS = {"km": 1, "KM": 1, "mi": 1.609, "m": 0.001, "ft": 0.0003048}
KILOMETERS_PER_DEGREE = 111.2


def has_polar_circle(case: Case) -> bool:
    """A circle that comes within ten degrees of a pole."""
    circles = CIRCLE.findall(" ".join(word for word in case.command if isinstance(word, str)))
    reaches = (abs(float(latitude)) + float(radius) * KILOMETERS[unit] / KILOMETERS_PER_DEGREE for _, latitude, radius, unit in circles)
    return any(reach > 80 for reach in reaches)


def is_of_dialect(*dialects: str) -> Callable[[Case], bool]:
    return lambda case: case.command[-2] == "DIALECT" and case.command[-1] in dialects


def both(*conditions: Callable[[Case], bool]) -> Callable[[Case], bool]:
    return lambda case: all(condition(case) for condition in conditions)


def shows_scores(case: Case) -> bool:
    return "WITHSCORES" in case.command


has_sign = query_has(r"[~-]")
has_sign_before_circle = query_has(r"[~-]@l")


def asks_for_order(case: Case) -> bool:
    if has("FILTER")(case) and query_has("\"")(case):
        # A condition on a number joins the words in quotes.
        return True
    return has("SLOP", "INORDER")(case) or query_has(r"\$slop|\$inorder|\"\S+\s")(case)


has_vectors = lambda case: case.index.vectors is not None  # noqa: E731

Condition = Callable[[Case], bool]
CLASSES: list[tuple[str, Condition, Condition]] = [
    ("order, total and absent values in dialect 4", is_of_dialect("4"), all_but_order_total_and_absent),
    ("order, total and absent values in dialect 4, with other scores", both(is_of_dialect("4"), shows_scores), keys_are_there),
    ("a number that must not be, in an order, in dialect 4", both(is_of_dialect("4"), has("SORTBY"), query_has(r"!=")), is_part_of_ours),
    ("dialect 4 after documents have changed", both(is_of_dialect("4"), lambda case: case.index.has_changed), is_part_of_ours),
    ("circles near a pole", both(has_polar_circle, lambda case: not has_sign_before_circle(case)), less_is_found),
    ("circles near a pole, negated or optional", both(has_polar_circle, lambda case: has_sign_before_circle(case)), one_finds_all),
    ("a field that is none", lambda case: True, is_refused_field),
    ("LIMIT of no results behind an offset", has("LIMIT"), lambda case: is_error(case.ours) and "LIMIT must be 0" in str(case.ours)),
    ("a pair of single quotes", both(lambda case: not is_of_dialect("1")(case), query_has(r"(?s)(?<!w)'(?:[^'\\]|\\.)*'")), is_accepted),
    ("an empty argument where a number stands", lambda case: True, has_no_number),
    ("patterns beside a field WITHSUFFIXTRIE", both(lambda case: case.index.has_suffixes, query_has(r"\*\w|w'")), is_refused_or_found_more),
    ("alternatives with stop words, in dialect 1", both(is_of_dialect("1"), query_has(r"\|\s*(a|the|of|foo)\b|\b(a|the|of|foo)\s*\|")), one_finds_all),
    ("a stop word as the first of a tag, in dialect 1", both(is_of_dialect("1"), query_has(r"[{|]\s*(a|the|of|foo)\b[^|}]*\w")), lambda case: is_error(case.theirs)),
    ("TAG values inside of another field, in dialect 1", both(is_of_dialect("1"), lambda case: case.is_about("FT.EXPLAIN")), is_explained_same),
    ("signs in quotes, in dialect 1", both(is_of_dialect("1"), query_has(r"\"[^\"]*[$%()*:;@\[\]{|}~-][^\"]*\"")), is_accepted),
    ("braces that do not match, in dialect 1", both(is_of_dialect("1"), query_has(r"{([^}\\]|\\.)*$|}}")), lambda case: is_error(case.ours)),
    ("a comparison that compares nothing", query_has(r"[<>=!]\s*[|:({\[<>=!]"), lambda case: is_error(case.ours) != is_error(case.theirs)),
    ("FT.SPELLCHECK of the word DISTANCE", lambda case: case.is_about("FT.SPELLCHECK") and case.command[2] == "DISTANCE", lambda case: is_error(case.theirs)),
    ("ASC or DESC in front of a property", has("SORTBY"), is_order_refused),
    ("words of more than 128 bytes, which the original cuts", query_has(r"\w{129}"), one_finds_all),
    ("a circle whose place or radius is no number", has("nan"), lambda case: more_is_found(case) or is_error(case.ours)),
    ("a number that begins with its point", query_has(r"(?<![\w.])\.\d|\d\.\d+\.\d"), is_read_otherwise),
    ("a backslash in front of a number that is compared", query_has(r"[<>=]\s*\\\d"), is_accepted),
    ("letters behind a number that is compared", query_has(r"[<>=]\s*-?[\d.]+[^\W\d]"), is_refused_syntax),
    ("a sign where a number stands", query_has(r"\[\s*[-+]\s|\s[-+]\s*\]"), is_refused_syntax),
    ("a sign behind a number", query_has(r"\[\S*\d[-+]"), is_refused_syntax),
    ("an error in a later record", has("APPLY", "FILTER"), is_refused_of_one),
    ("a shape's sides on the sphere", both(lambda case: case.index.is_spherical, query_has(r"\$shape")), sides_meet_corners),
    ("a range of vectors that have a graph", both(lambda case: case.index.has_graph, query_has("VECTOR_RANGE")), lambda case: less_is_found(case) or fewer_records(case)),
    ("alternatives that 2.10 passes over", has_alternatives, each_key_is_right),
    ("BM25STD of 8.x", both(shows_scores, lambda case: has("BM25STD")(case) or not has("SCORER")(case)), keys_are_same),
    ("scores of an aggregation's documents", both(shows_scores, lambda case: case.is_about("FT.AGGREGATE")), records_are_same),
    ("TFIDF of documents with vectors", both(has_vectors, has("TFIDF")), keys_are_same),
    ("scores of patterns", both(shows_scores, has_pattern), keys_are_same),
    ("distances of several words in TFIDF and BM25", both(shows_scores, has_several_parts, has("TFIDF", "TFIDF.DOCNORM", "BM25")), keys_are_same),
    ("scores of alternatives, optional and negated parts", both(shows_scores, has_alternatives), keys_are_same),
    ("documents that have changed, in a term's rarity", both(shows_scores, lambda case: case.index.has_changed), keys_are_same),
    ("proposals of documents that have changed", both(lambda case: case.index.has_changed, lambda case: case.is_about("FT.SPELLCHECK")), words_are_there),
    ("values of documents that have changed", both(lambda case: case.index.has_changed, lambda case: case.is_about("FT.TAGVALS")), more_values_are_there),
    ("order and distance of alternatives, and beside parts that have no words", both(asks_for_order, lambda case: not has_sign(case)), one_finds_all),
    ("order and distance beside a negated part", both(asks_for_order, has_sign), one_finds_all),
    ("fuzzy words that stand for stems and sounds", query_has("%"), more_is_found),
    ("FT.SPELLCHECK of distance 2", lambda case: case.is_about("FT.SPELLCHECK") and case.command[-1] == "2", more_is_found),
    ("HIGHLIGHT and SUMMARIZE of a field that is none, and that RETURN leaves out", both(has("HIGHLIGHT", "SUMMARIZE"), has("RETURN")), is_refused_property),
    ("RETURN of a field that is none, beside HIGHLIGHT and SUMMARIZE", has("HIGHLIGHT", "SUMMARIZE"), is_returned),
    ("words that HIGHLIGHT marks", lambda case: has("HIGHLIGHT")(case) and not has("SUMMARIZE")(case), texts_are_same),
    ("fragments of SUMMARIZE", has("SUMMARIZE"), keys_are_same),
    ("estimates of COUNT_DISTINCTISH and QUANTILE", has(*ESTIMATES), all_but(*ESTIMATES)),
    ("AVG leaves out absent values", has("AVG"), all_but("AVG", *ESTIMATES)),
    ("reducers of no numbers", has(*NUMBERS), all_but_numbers_of_none()),
    ("reducers of no numbers, and a FILTER behind them", both(has(*NUMBERS), has("FILTER")), all_but_groups_of_none),
    ("groups by numbers of no numbers, and by STDDEV", groups_again, all_but_like_groups),
    ("the first of equal values, where documents have changed", both(has("FIRST_VALUE"), lambda case: case.index.has_changed), all_but_numbers_of_none("FIRST_VALUE")),
    ("members of a document that has changed", has_changed_documents, members_are_same),
    ("other values of a path in groups, where documents have changed", both(has_changed_documents, has("GROUPBY")), first_values_are_same),
    ("text of a path's values in dialect 3", lambda case: case.index.is_json and is_of_dialect("3", "4")(case) and compares_text(case), is_computed),
]  # fmt: skip


def class_of(case: Case) -> str:
    for name, applies, holds in CLASSES:
        if applies(case) and is_held(holds, case):
            return name
    return "unexplained"


def is_held(holds: Condition, case: Case) -> bool:
    try:
        return holds(case)
    except (ValueError, KeyError, IndexError, AttributeError, TypeError):
        # A request that was changed at random may answer in another form than its words say.
        return False
