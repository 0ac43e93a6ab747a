"""Payments by card: a script searches what the card has paid, and books the next payment or refuses it.

    payment:ID     card, merchant, country, amount, at (seconds)
    balance:CARD   what is left on the card

Search and booking are one script, so one transaction, and a payment is found from its booking on: of two at the same time the second sees
the first, and no check is passed by being quick.

    python payments.py fill && python payments.py pay card1 bakery DE 12
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass

import redis

WINDOW_SECONDS = 3600
PAYMENTS_MAX = 3
AMOUNT_MAX = 500

# What the card has paid in the window, by country: {country, payments, amount}, and then the rules.
PAY = """
local payment, balance = KEYS[1], KEYS[2]
local card, merchant, country, amount, at, since, payments_max, amount_max = unpack(ARGV)
if redis.call('EXISTS', payment) == 1 then return 'known' end
if tonumber(redis.call('GET', balance) or 0) < tonumber(amount) then return 'no money' end

local query = '@card:{$card} @at:[$since +inf]'
local found = redis.call('FT.AGGREGATE', 'payments', query, 'PARAMS', 4, 'card', card, 'since', since,
    'GROUPBY', 1, '@country', 'REDUCE', 'COUNT', 0, 'AS', 'payments', 'REDUCE', 'SUM', 1, '@amount', 'AS', 'amount')
local count, sum, elsewhere = 0, 0, false
for place = 2, #found do
    local row = {}
    for pair = 1, #found[place], 2 do row[found[place][pair]] = found[place][pair + 1] end
    count, sum = count + row.payments, sum + row.amount
    elsewhere = elsewhere or row.country ~= country
end
if count >= tonumber(payments_max) then return 'too many' end
if sum + amount > tonumber(amount_max) then return 'too much' end
if elsewhere then return 'elsewhere' end

redis.call('INCRBYFLOAT', balance, -amount)
redis.call('HSET', payment, 'card', card, 'merchant', merchant, 'country', country, 'amount', amount, 'at', at)
return 'booked'
"""


@dataclass(frozen=True)
class Payment:
    id: str
    card: str
    merchant: str
    country: str
    amount: int


class Payments:
    def __init__(self, client: redis.Redis):
        self.client = client
        self.script = client.register_script(PAY)

    def fill(self, cards: dict[str, int]) -> None:
        """Makes the index unless it is there, and gives each card its balance."""
        schema = ["card", "TAG", "merchant", "TAG", "country", "TAG", "SORTABLE", "UNF", "amount", "NUMERIC", "SORTABLE", "at", "NUMERIC"]
        self.client.execute_command("FT._CREATEIFNX", "payments", "PREFIX", 1, "payment:", "SCHEMA", *schema)
        for card, balance in cards.items():
            self.client.set(f"balance:{card}", balance)

    def pay(self, payment: Payment, at: int | None = None) -> str:
        """`booked`, or why not. Asked again with the same id it is booked no second time."""
        seconds = int(time.time()) if at is None else at
        limits = [seconds - WINDOW_SECONDS, PAYMENTS_MAX, AMOUNT_MAX]
        fields = [payment.card, payment.merchant, payment.country, payment.amount, seconds]
        return self.script(keys=[f"payment:{payment.id}", f"balance:{payment.card}"], args=[*fields, *limits])

    def balance(self, card: str) -> float:
        return float(self.client.get(f"balance:{card}") or 0)

    def paid(self, card: str) -> float:
        """What all payments of a card make together."""
        total = ["GROUPBY", 0, "REDUCE", "SUM", 1, "@amount", "AS", "amount"]
        found = self.client.execute_command("FT.AGGREGATE", "payments", "@card:{$card}", "PARAMS", 2, "card", card, *total)
        return sum(float(row["extra_attributes"]["amount"]) for row in found["results"])


def connect() -> redis.Redis:
    return redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), protocol=3, decode_responses=True)


def main() -> None:
    payments = Payments(connect())
    match sys.argv[1:]:
        case ["fill"]:
            payments.fill({"card1": 1000, "card2": 200})
        case ["pay", card, merchant, country, amount]:
            print(payments.pay(Payment(str(time.time_ns()), card, merchant, country, int(amount))), payments.balance(card))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
