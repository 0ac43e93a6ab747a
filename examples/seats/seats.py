"""A box office on the directory, subspace and tuple layers of FoundationDB's Python package.

    ("box-office", SHOW)                   a directory for each show: a short prefix of all its keys
        "free",   row, number              a seat that can be sold
        "sold",   row, number              who has it
        "orders", versionstamp             who bought which seats, in the order in which it was committed

    python seats.py open Hamlet 5 20 && python seats.py buy Hamlet Ann 2 && python seats.py show Hamlet
"""

import sys

import fdb
import fdb.tuple

fdb.api_version(730)
OFFICE = ("box-office",)


class SoldOut(Exception):
    """No row has so many free seats side by side."""


class Show:
    """The parts of a show's directory. They stay the same when the show gets another name."""

    def __init__(self, directory):
        self.free, self.sold, self.orders = directory["free"], directory["sold"], directory["orders"]


@fdb.transactional
def open_show(tr, name: str, rows: int, seats: int) -> Show:
    """A new show with empty seats. Two who open the same one at once cannot both succeed."""
    show = Show(fdb.directory.create(tr, (*OFFICE, name)))
    for row in range(1, rows + 1):
        for number in range(1, seats + 1):
            tr[show.free[row][number]] = b""
    return show


@fdb.transactional
def find_show(tr, name: str) -> Show:
    return Show(fdb.directory.open(tr, (*OFFICE, name)))


@fdb.transactional
def shows(tr) -> list[str]:
    return fdb.directory.list(tr, OFFICE) if fdb.directory.exists(tr, OFFICE) else []


@fdb.transactional
def rename_show(tr, old: str, new: str) -> None:
    """Moves the directory. No key of the show changes."""
    fdb.directory.move(tr, (*OFFICE, old), (*OFFICE, new))


@fdb.transactional
def close_show(tr, name: str) -> None:
    """The directory goes, and everything in it."""
    fdb.directory.remove(tr, (*OFFICE, name))


@fdb.transactional
def free_seats(tr, show: Show) -> list[tuple[int, int]]:
    return [show.free.unpack(row.key) for row in tr[show.free.range()]]


@fdb.transactional
def buy(tr, show: Show, customer: str, count: int) -> list[tuple[int, int]]:
    """Sells the first seats that lie side by side.

    It looks at free seats by a snapshot, so two customers conflict only over a seat that both would take.
    """
    found: list[tuple[int, int]] = []
    for free in tr.snapshot[show.free.range()]:
        row, number = show.free.unpack(free.key)
        is_next = bool(found) and found[-1] == (row, number - 1)
        found = [*found, (row, number)] if is_next else [(row, number)]
        if len(found) == count:
            break
    else:
        raise SoldOut
    for seat in found:
        tr.add_read_conflict_key(show.free.pack(seat))
        del tr[show.free.pack(seat)]
        tr[show.sold.pack(seat)] = customer.encode()
    order = show.orders.pack_with_versionstamp((fdb.tuple.Versionstamp(),))
    tr.set_versionstamped_key(order, fdb.tuple.pack((customer, tuple(found))))
    return found


@fdb.transactional
def give_back(tr, show: Show, seat: tuple[int, int]) -> None:
    del tr[show.sold.pack(seat)]
    tr[show.free.pack(seat)] = b""


@fdb.transactional
def sold_seats(tr, show: Show) -> dict[tuple[int, int], str]:
    return {show.sold.unpack(row.key): bytes(row.value).decode() for row in tr[show.sold.range()]}


@fdb.transactional
def orders(tr, show: Show) -> list[tuple[str, tuple]]:
    """Customers and their seats, the first sale first."""
    return [fdb.tuple.unpack(row.value) for row in tr[show.orders.range()]]


def main(words: list[str]) -> None:
    database = fdb.open()
    match words:
        case ["open", name, rows, seats]:
            open_show(database, name, int(rows), int(seats))
        case ["buy", name, customer, count]:
            print(*buy(database, find_show(database, name), customer, int(count)))
        case ["show", name]:
            show = find_show(database, name)
            print(len(free_seats(database, show)), "free")
            for (row, number), customer in sold_seats(database, show).items():
                print(f"row {row} seat {number}: {customer}")
        case ["list"]:
            print(*shows(database), sep="\n")
        case _:
            sys.exit("open NAME ROWS SEATS | buy NAME CUSTOMER COUNT | show NAME | list")


if __name__ == "__main__":
    main(sys.argv[1:])
