"""What a box office must never do, and what its directories are for."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fdb
import pytest
import seats


@pytest.fixture
def database():
    database = fdb.open()
    if fdb.directory.exists(database, seats.OFFICE):
        fdb.directory.remove(database, seats.OFFICE)
    return database


def test_seats_lie_side_by_side(database):
    show = seats.open_show(database, "Hamlet", 2, 3)
    assert seats.buy(database, show, "Ann", 2) == [(1, 1), (1, 2)]
    assert seats.buy(database, show, "Bob", 2) == [(2, 1), (2, 2)]
    assert seats.free_seats(database, show) == [(1, 3), (2, 3)]
    with pytest.raises(seats.SoldOut):
        seats.buy(database, show, "Cy", 2)
    seats.give_back(database, show, (1, 2))
    assert seats.buy(database, show, "Cy", 2) == [(1, 2), (1, 3)]
    assert seats.orders(database, show) == [("Ann", ((1, 1), (1, 2))), ("Bob", ((2, 1), (2, 2))), ("Cy", ((1, 2), (1, 3)))]


def test_no_seat_is_sold_twice(database):
    show = seats.open_show(database, "Lear", 5, 8)
    customers = ["customer %d" % number for number in range(25)]

    def try_to_buy(customer):
        try:
            return customer, seats.buy(database, show, customer, 2)
        except seats.SoldOut:
            return customer, []

    with ThreadPoolExecutor(8) as threads:
        told = dict(threads.map(try_to_buy, customers))
    sold = seats.sold_seats(database, show)
    assert seats.free_seats(database, show) == [] and len(sold) == 40
    assert sold == {seat: customer for customer, bought in told.items() for seat in bought}
    # The log of orders was written in the same transactions.
    assert {customer: list(bought) for customer, bought in seats.orders(database, show)} == {
        customer: bought for customer, bought in told.items() if bought
    }


def test_a_show_with_another_name_keeps_its_seats(database):
    show = seats.open_show(database, "Macbeth", 1, 4)
    seats.open_show(database, "Othello", 1, 4)
    seats.buy(database, show, "Ann", 1)
    seats.rename_show(database, "Macbeth", "The Scottish Play")
    assert seats.shows(database) == ["Othello", "The Scottish Play"]
    moved = seats.find_show(database, "The Scottish Play")
    assert moved.free.key() == show.free.key()
    assert seats.sold_seats(database, moved) == {(1, 1): "Ann"}
    with pytest.raises(ValueError):
        seats.find_show(database, "Macbeth")


def test_a_closed_show_leaves_nothing(database):
    show, other = (seats.open_show(database, name, 1, 4) for name in ("Othello", "Hamlet"))
    seats.buy(database, show, "Ann", 2)
    seats.close_show(database, "Othello")
    assert seats.shows(database) == ["Hamlet"]
    assert seats.free_seats(database, show) == [] and seats.orders(database, show) == []
    assert len(seats.free_seats(database, other)) == 4


def test_a_show_is_opened_once(database):
    def try_to_open(_):
        try:
            return seats.open_show(database, "Hamlet", 2, 2) is not None
        except ValueError:
            return False

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(try_to_open, range(4))) == 1
    assert len(seats.free_seats(database, seats.find_show(database, "Hamlet"))) == 4


def test_the_command(database):
    def told(*words):
        return subprocess.run([sys.executable, Path(seats.__file__), *words], check=True, capture_output=True, text=True).stdout

    assert told("open", "Hamlet", "1", "3") == ""
    assert told("buy", "Hamlet", "Ann", "2") == "(1, 1) (1, 2)\n"
    assert told("show", "Hamlet") == "1 free\nrow 1 seat 1: Ann\nrow 1 seat 2: Ann\n"
    assert told("list") == "Hamlet\n"
