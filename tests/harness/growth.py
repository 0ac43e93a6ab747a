"""Whether a call costs more on many than on few: processor time of the server for the same calls, so no test depends on a machine's speed."""

from __future__ import annotations

CALLS = 40
# Seconds of 40 calls. One that looks at each of 100,000 elements costs more: a microsecond for each hundred of them.
FLOOR = 0.03
# What else a server does meanwhile, a checkpoint for one, is not in each of these.
TRIES = 3


def has_grown(few: float, many: float) -> bool:
    return many > 5 * few + FLOOR


def grown_lines(server, lines: dict) -> dict:
    """The lines whose calls cost more on many (`lines[True]`) than on few, with their seconds."""

    def cost(call) -> float:
        before = server.cpu_seconds()
        for number in range(CALLS):
            call(number)
        return server.cpu_seconds() - before

    grown = {}
    for line, call in lines[False].items():
        few, tries = cost(call), [cost(lines[True][line])]
        while has_grown(few, min(tries)) and len(tries) < TRIES:
            tries.append(cost(lines[True][line]))
        if has_grown(few, min(tries)):
            grown[line] = few, tries
    return grown
