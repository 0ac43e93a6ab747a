"""Records what Tantivy answers to filters and aggregations at random: `python tantivy_answers.py [--seed N] [--indexes N] [--queries N] [FILE]`.

Builds the program beside it with cargo, into target/tantivy. `tests/redis/python/test_search_tantivy.py` compares with the recorded
file; `python tantivy_answers.py --compare PORT` compares a running server with new answers instead, for as many as are asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/redis/testdata/tantivy.jsonl"
WORDS = """run running runner fly flies flying hello hallo help helper world worlds word the of foo food bar barn zebra 2020 3d
über naïve connect connected connection nation national rational happy happily straße ÄRGER it's a-b x""".split()
KEYWORDS = ["red", "light blue", "green", "Red", "x"]


def program() -> Path:
    if "TANTIVY_ANSWERS" in os.environ:
        return Path(os.environ["TANTIVY_ANSWERS"])
    folder = ROOT / "target/tantivy"
    manifest = Path(__file__).parent / "Cargo.toml"
    subprocess.run(["cargo", "build", "--locked", "--release", "--manifest-path", manifest, "--target-dir", folder], check=True, stdout=sys.stderr)
    return folder / "release/quartet-tantivy-answers"


def random_text(choice: random.Random) -> str:
    return choice.choice([" ", " ", ", "]).join(choice.choice(WORDS) for _ in range(choice.randrange(1, 14)))


def random_document(choice: random.Random) -> dict[str, object]:
    document: dict[str, object] = {"t": random_text(choice)}
    if choice.random() < 0.8:
        document["b"] = random_text(choice)
    if choice.random() < 0.9:
        document["k"] = choice.choice(KEYWORDS)
    if choice.random() < 0.8:
        document["n"] = choice.randrange(-5, 30)
    if choice.random() < 0.8:
        document["f"] = choice.choice([0.5, 1.25, -2.5, 7.0, 100.0, 3.0])
    return document


def wrong(choice: random.Random, word: str) -> str:
    """With a letter that is missing, too many or another one, or two in the wrong order."""
    at = choice.randrange(len(word))
    kind = choice.randrange(4)
    if kind == 0 and len(word) > 1:
        return word[:at] + word[at + 1 :]
    if kind == 1:
        return word[:at] + "e" + word[at:]
    if kind == 2 and len(word) > 2:
        at = min(at, len(word) - 2)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + "o" + word[at + 1 :]


def random_condition(choice: random.Random) -> dict[str, object]:
    word, other = choice.choice(WORDS), choice.choice(WORDS)
    text = choice.choice("tb")
    kind = choice.randrange(13)
    operators: dict[str, object]
    if kind < 2:
        operators = {"$eq": word}
    elif kind == 2:
        operators = {"$eq": f"{word} {other}"}
    elif kind == 3:
        operators = {"$phrase": choice.choice([f"{word} {other}", {"value": f"{word} {other}", "slop": choice.randrange(4)}])}
    elif kind == 4:
        operators = {"$phrase": {"value": f"{word} {other[:2]}", "prefix": True}}
    elif kind in (5, 6):
        # Of words that begin with two errors levenshtein_automata 0.2 misses some: of `acb` near `caa`, which `a` is two letters from.
        distance = choice.randrange(3)
        operators = {"$fuzzy": {"value": wrong(choice, word), "distance": distance, "transpositionCostOne": choice.random() < 0.5}}
        operators["$fuzzy"]["prefix"] = distance < 2 and choice.random() < 0.5
    elif kind == 7:
        operators = {"$regex": choice.choice([f"{word[:2].lower()}.*", f".*{word[-2:].lower()}", "h.ll?o", "(fli|run).*", "[0-9]+.*"])}
    elif kind == 8:
        operators = {"$in": [word, other]}
    elif kind == 9:
        return {"k": choice.choice([{"$eq": choice.choice(KEYWORDS)}, {"$in": choice.sample(KEYWORDS, 2)}])}
    elif kind == 10:
        low = choice.randrange(-5, 20)
        return {"n": choice.choice([{"$gte": low}, {"$lt": low}, {"$gt": low, "$lte": low + 8}, {"$eq": low}])}
    elif kind == 11:
        return {"f": choice.choice([{"$gte": 1.25}, {"$lt": 3.0}, {"$eq": 7.0}])}
    else:
        operators = {"$eq": word.upper()}
    # Tantivy passes over the boost of a phrase of one word and a prefix.
    if kind != 4 and choice.random() < 0.15:
        operators["$boost"] = choice.choice([2, 0.5])
    return {text: operators}


def random_filter(choice: random.Random, depth: int) -> dict[str, object]:
    if depth == 0 or choice.random() < 0.5:
        return random_condition(choice)
    parts = [random_filter(choice, depth - 1) for _ in range(choice.randrange(2, 4))]
    kind = choice.randrange(4)
    if kind == 0:
        return {"$must": parts}
    if kind == 1:
        return {"$should": parts}
    if kind == 2:
        return {"$must": parts[:1], "$should": parts[1:]}
    return {"$must": parts[:1], "$mustNot": parts[1:]}


def random_aggregation(choice: random.Random) -> dict[str, object]:
    """As Tantivy has it; `of_upstash` writes it for SEARCH.AGGREGATE."""
    field = choice.choice("nf")
    metric = {choice.choice(["avg", "sum", "min", "max", "stats", "value_count"]): {"field": field}}
    buckets = choice.choice([
        {"terms": {"field": "k", "size": 10}},
        {"range": {"field": field, "ranges": [{"to": 2.0}, {"from": 2.0, "to": 7.0}, {"from": 7.0}]}},
        {"histogram": {"field": field, "interval": choice.choice([2.0, 5.0])}},
        {"histogram": {"field": field, "interval": 5.0, "min_doc_count": 1}},
    ])  # fmt: skip
    kind = choice.randrange(3)
    if kind == 0:
        return {"a": metric}
    if kind == 1:
        return {"a": buckets}
    return {"a": buckets | {"aggs": {"m": metric}}}


NAMES = {"terms": "$terms", "range": "$range", "histogram": "$histogram", "avg": "$avg", "sum": "$sum", "min": "$min", "max": "$max", "stats": "$stats",
         "value_count": "$count", "aggs": "$aggs", "min_doc_count": "minDocCount"}  # fmt: skip


def of_upstash(value: object) -> object:
    if isinstance(value, dict):
        return {NAMES.get(name, name): of_upstash(one) for name, one in value.items()}
    return [of_upstash(one) for one in value] if isinstance(value, list) else value


def questions(seed: int, indexes: int, queries: int) -> list[dict[str, object]]:
    choice = random.Random(seed)
    out: list[dict[str, object]] = []
    for _ in range(indexes):
        out.append({"documents": [random_document(choice) for _ in range(choice.choice([5, 40, 120]))]})
        for _ in range(queries):
            out.append({"filter": random_filter(choice, 2)})
            if choice.random() < 0.25:
                out[-1]["aggs"] = random_aggregation(choice)
    return out


def answered(asked: list[dict[str, object]]) -> list[dict[str, object]]:
    given = "".join(json.dumps(line) + "\n" for line in asked)
    done = subprocess.run([program()], input=given, capture_output=True, text=True, check=True)
    answers = iter(map(json.loads, done.stdout.splitlines()))
    lines = [line if "documents" in line else line | {"answer": next(answers)} for line in asked]
    refused = [line for line in lines if is_refused(line.get("answer"))]
    for line in refused:
        print(f"Tantivy does not answer {line['filter']}: {line['answer']['error']}", file=sys.stderr)
    return [line for line in lines if line not in refused]


def is_refused(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("error"), str)


# ---- Comparing


CREATE = "SEARCH.CREATE i ON JSON PREFIX 1 d: LANGUAGE english SCHEMA t TEXT b TEXT k KEYWORD FAST n I64 FAST f F64 FAST".split()
HITS_MAX = 1000


def differences(lines: list[dict[str, object]], do) -> list[str]:
    """What a server answers otherwise than Tantivy did. `do` sends a request and returns its reply, with errors as text."""
    wrong = []
    for line in lines:
        if "documents" in line:
            assert do("FLUSHALL") == "OK"
            assert do(*CREATE) == 1
            for position, document in enumerate(line["documents"]):
                do("JSON.SET", f"d:{position:05}", "$", json.dumps(document))
            continue
        filter_text, expected = json.dumps(line["filter"]), line["answer"]
        if "aggs" in line:
            reply = do("SEARCH.AGGREGATE", "i", filter_text, json.dumps(of_upstash(line["aggs"])))
            is_same = isinstance(reply, list) and same_figures(expected, tree(reply))
        else:
            reply = do("SEARCH.QUERY", "i", filter_text, "NOCONTENT", "LIMIT", HITS_MAX)
            is_same = isinstance(reply, list) and same_hits(expected, reply)
        if not is_same:
            wrong.append(f"{line['filter']} {line.get('aggs', '')}\n    Tantivy {expected!r:.500}\n    here    {reply!r:.500}")
    return wrong


def same_hits(expected: list[list[float]], reply: list[list[object]]) -> bool:
    theirs = {f"d:{position:05}": score for position, score in expected}
    ours = {hit[0]: float(hit[1]) for hit in reply}
    scores = [float(hit[1]) for hit in reply]
    is_ordered = all(a >= b for a, b in zip(scores, scores[1:]))
    return is_ordered and theirs.keys() == ours.keys() and all(is_near(score, ours[key]) for key, score in theirs.items())


def is_near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-5 * max(1.0, abs(a))


def tree(reply: object) -> object:
    """Names and values in turn as an object."""
    if isinstance(reply, list):
        if reply and len(reply) % 2 == 0 and all(isinstance(name, str) and not is_number(name) for name in reply[::2]):
            return {name: tree(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
        return [tree(value) for value in reply]
    return reply


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


SHOWN = {"doc_count": "docCount", "sum_other_doc_count": "sumOtherDocCount", "doc_count_error_upper_bound": "docCountErrorUpperBound"}


def same_figures(expected: object, found: object) -> bool:
    if isinstance(expected, dict):
        known = {SHOWN.get(name, name): value for name, value in expected.items() if value is not None}
        if not isinstance(found, dict):
            return False
        return all(same_figures(value, found.get(name)) for name, value in known.items())
    if isinstance(expected, list):
        if not isinstance(found, list) or len(expected) != len(found):
            return False
        # Buckets of equal counts have an order of their own there.
        by_key = lambda bucket: str(bucket.get("key"))  # noqa: E731
        if expected and isinstance(expected[0], dict) and isinstance(expected[0].get("key"), str):
            expected, found = sorted(expected, key=by_key), sorted(found, key=by_key)
        return all(map(same_figures, expected, found))
    if isinstance(expected, (int, float)):
        return found is not None and is_number(str(found)) and is_near(float(expected), float(found))
    return expected == found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--indexes", type=int, default=6)
    parser.add_argument("--queries", type=int, default=60, help="of each index")
    parser.add_argument("--compare", type=int, metavar="PORT", help="compares a server instead of writing the file; empties it")
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("file", nargs="?", type=Path, default=RECORDED)
    arguments = parser.parse_args()
    lines = answered(questions(arguments.seed, arguments.indexes, arguments.queries))
    if arguments.compare is None:
        arguments.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return 0
    sys.path.insert(0, str(ROOT / "tests"))
    from harness.resp import Connection

    wrong = differences(lines, Connection(arguments.compare).do)
    print(f"{sum('answer' in line for line in lines)} compared, {len(wrong)} differ")
    for text in wrong[: arguments.show]:
        print(text)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
