from __future__ import annotations

import threading

import pytest
from payments import PAYMENTS_MAX, WINDOW_SECONDS, Payment, Payments, connect

NOW = 1_800_000_000


@pytest.fixture
def payments():
    client = connect()
    for key in [*client.scan_iter("payment:*"), *client.scan_iter("balance:*")]:
        client.delete(key)
    made = Payments(client)
    made.fill({"a": 1000, "b": 100})
    yield made
    client.close()


def pay(payments: Payments, name: str, card: str = "a", country: str = "DE", amount: int = 10, at: int = NOW) -> str:
    return payments.pay(Payment(name, card, "bakery", country, amount), at)


def test_a_payment_is_booked_once_and_found_at_once(payments):
    assert (pay(payments, "1"), pay(payments, "1")) == ("booked", "known")
    assert (payments.balance("a"), payments.paid("a")) == (990, 10)


def test_each_rule_refuses(payments):
    assert pay(payments, "1", card="b", amount=101) == "no money"
    assert pay(payments, "2", amount=490) == "booked"
    assert pay(payments, "3", amount=11) == "too much"
    assert pay(payments, "4", country="FR") == "elsewhere"
    assert [pay(payments, name, amount=5) for name in ("5", "6", "7")] == ["booked", "booked", "too many"]
    later = NOW + WINDOW_SECONDS + 1
    assert pay(payments, "8", country="FR", at=later) == "booked"
    assert payments.paid("a") == 510 == 1000 - payments.balance("a")


def test_of_many_at_the_same_time_no_more_than_the_rule_allows(payments):
    replies: list[str] = []
    threads = [threading.Thread(target=lambda name=str(name): replies.append(pay(payments, name))) for name in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == ["booked"] * PAYMENTS_MAX + ["too many"] * (12 - PAYMENTS_MAX)
    assert (payments.balance("a"), payments.paid("a")) == (970, 30)
