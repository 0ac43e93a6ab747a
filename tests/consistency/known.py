"""The judge is judged first: histories whose anomalies are known, `known.txt`."""

from __future__ import annotations

from pathlib import Path

from .judge import Transaction, judge

BAD_LEAST = 30


def read() -> list[tuple[str, list[str], list[Transaction]]]:
    cases = []
    for line in Path(__file__).with_name("known.txt").read_text().splitlines():
        if line.startswith("= "):
            title, _, expected = line[2:].rpartition(": ")
            cases.append((title, [] if expected == "good" else sorted(expected.split()), []))
        elif line.strip() and not line.startswith("#"):
            cases[-1][2].append(transaction(line))
    return cases


def transaction(line: str) -> Transaction:
    times, outcome, operations = line.split(" ", 2)
    began, ended = map(int, times.split("-"))
    return Transaction([operation(part.split()) for part in operations.split(";")], began, ended, outcome)


def operation(words: list[str]):
    kind, key, *values = words
    if kind == "a":
        return "append", key, int(values[0])
    return "read", key, [int(value) for value in values]


def check() -> tuple[int, list[str]]:
    """The number of histories, and what is wrong with the judge."""
    cases, wrong = read(), []
    for title, expected, history in cases:
        named = judge(history).names()
        if named != expected:
            wrong.append(f"{title}: expected {expected}, named {named}")
    if sum(bool(expected) for _, expected, _ in cases) < BAD_LEAST:
        wrong.append(f"fewer than {BAD_LEAST} bad histories")
    return len(cases), wrong


if __name__ == "__main__":
    count, wrong = check()
    print(f"{count} histories", *wrong, sep="\n")
