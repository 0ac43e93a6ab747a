"""A shop's search: words, facets and similar goods over hashes, and a cache of answers that is looked up by meaning.

    ware:ID      name, text, brand, colors, price, stock, likeness (a vector)
    answer:ID    question, answer, meaning (a vector)

    python shop.py fill && python shop.py search "running shoes" color=red max=100 && python shop.py similar w3
"""

from __future__ import annotations

import hashlib
import os
import sys
from array import array

import redis

DIMENSIONS = 128
WARES = [
    ("w1", "Road running shoes", "Light shoes for running on asphalt", "Hermes", "red,white", 95, 4),
    ("w2", "Trail running shoes", "Shoes with a deep tread for running on mud", "Hermes", "green", 120, 2),
    ("w3", "Canvas shoes", "Plain shoes for every day", "Bata", "red,blue", 40, 9),
    ("w4", "Rain jacket", "A light jacket for running in the rain", "Aquila", "blue", 80, 1),
    ("w5", "Wool jacket", "A warm jacket for cold days", "Aquila", "green,red", 150, 0),
    ("w6", "Running socks", "Thin socks, two pairs", "Bata", "white", 12, 30),
]


class SoldOut(Exception):
    """Nothing of it is left."""


def vector(text: str) -> bytes:
    """Stands for a model's: each word adds to one place, so texts that share words are near."""
    numbers = array("f", [0.001] * DIMENSIONS)
    for word in text.lower().replace(",", " ").replace("?", " ").split():
        numbers[int(hashlib.sha1(word.encode()).hexdigest(), 16) % DIMENSIONS] += 1
    return numbers.tobytes()


def connect() -> redis.Redis:
    return redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"), protocol=3, decode_responses=True)


def text_of(words: str) -> str:
    """The words of somebody's as words of a query, whatever signs they hold."""
    return " ".join("".join(letter if letter.isalnum() else " " for letter in words).split()) or "*"


def rows(reply: dict) -> list[dict]:
    return [{"id": row.get("id"), **row["extra_attributes"]} for row in reply["results"]]


class Shop:
    def __init__(self, client: redis.Redis):
        self.client = client

    def fill(self) -> None:
        """Makes the index unless it is there. A ware is found from the reply to its HSET on."""
        likeness = ["likeness", "VECTOR", "HNSW", 6, "TYPE", "FLOAT32", "DIM", DIMENSIONS, "DISTANCE_METRIC", "COSINE"]
        schema = ["name", "TEXT", "WEIGHT", 3, "text", "TEXT", "brand", "TAG", "SORTABLE", "colors", "TAG", "price", "NUMERIC", "SORTABLE", "stock", "NUMERIC"]
        self.client.execute_command("FT._CREATEIFNX", "wares", "PREFIX", 1, "ware:", "SCHEMA", *schema, *likeness)
        for ware, name, text, brand, colors, price, stock in WARES:
            fields = {"name": name, "text": text, "brand": brand, "colors": colors, "price": price, "stock": stock, "likeness": vector(f"{name} {text}")}
            self.client.hset(f"ware:{ware}", mapping=fields)

    def query(self, words: str, color: str | None = None, max_price: float | None = None) -> str:
        parts = [f"({text_of(words)})"] if text_of(words) != "*" else []
        if color:
            parts.append(f"@colors:{{{text_of(color)}}}")
        if max_price is not None:
            parts.append(f"@price:[-inf {max_price}]")
        return " ".join(parts) or "*"

    def search(self, words: str, color: str | None = None, max_price: float | None = None) -> list[dict]:
        """The best first, with the words that were found between stars."""
        shown = ["RETURN", 2, "name", "price", "HIGHLIGHT", "FIELDS", 1, "name", "TAGS", "*", "*"]
        return rows(self.client.execute_command("FT.SEARCH", "wares", self.query(words, color, max_price), *shown))

    def facets(self, words: str, field: str) -> dict[str, int]:
        """How many of the wares that are found have each value; a ware with two colours counts for both."""
        split = ["APPLY", f"split(@{field})", "AS", "value", "GROUPBY", 1, "@value", "REDUCE", "COUNT", 0, "AS", "count"]
        found = rows(self.client.execute_command("FT.AGGREGATE", "wares", self.query(words), "LOAD", 1, f"@{field}", *split))
        counts: dict[str, int] = {}
        for row in found:
            for value in [row["value"]] if isinstance(row["value"], str) else row["value"]:
                counts[value] = counts.get(value, 0) + int(row["count"])
        return counts

    def similar(self, ware: str, count: int = 2) -> list[str]:
        """The nearest to it that are left in stock."""
        likeness = redis.Redis.from_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379")).hget(f"ware:{ware}", "likeness")
        query = f"(@stock:[1 +inf])=>[KNN {count + 1} @likeness $it AS distance]"
        reply = self.client.execute_command("FT.SEARCH", "wares", query, "PARAMS", 2, "it", likeness, "SORTBY", "distance", "NOCONTENT")
        return [row["id"] for row in reply["results"] if row["id"] != f"ware:{ware}"][:count]

    def sell(self, ware: str) -> int:
        """Returns how many are left. What is sold out is out of `similar` with the same transaction."""
        left = self.client.hincrby(f"ware:{ware}", "stock", -1)
        if left < 0:
            self.client.hincrby(f"ware:{ware}", "stock", 1)
            raise SoldOut(ware)
        return left


class Answers:
    """A semantic cache: a question that is near enough to one before gets its answer."""

    def __init__(self, client: redis.Redis, farthest: float = 0.2, seconds: int = 3600):
        self.client, self.farthest, self.seconds = client, farthest, seconds
        meaning = ["meaning", "VECTOR", "FLAT", 6, "TYPE", "FLOAT32", "DIM", DIMENSIONS, "DISTANCE_METRIC", "COSINE"]
        client.execute_command("FT._CREATEIFNX", "answers", "PREFIX", 1, "answer:", "SCHEMA", "question", "TEXT", *meaning)

    def put(self, question: str, answer: str) -> None:
        key = "answer:" + hashlib.sha1(question.encode()).hexdigest()
        with self.client.pipeline() as both:
            both.hset(key, mapping={"question": question, "answer": answer, "meaning": vector(question)})
            both.expire(key, self.seconds)
            both.execute()

    def get(self, question: str) -> str | None:
        query = "@meaning:[VECTOR_RANGE $farthest $asked]=>{$YIELD_DISTANCE_AS: distance}"
        parameters = ["PARAMS", 4, "farthest", self.farthest, "asked", vector(question)]
        found = rows(self.client.execute_command("FT.SEARCH", "answers", query, *parameters, "SORTBY", "distance", "LIMIT", 0, 1, "RETURN", 1, "answer"))
        return found[0]["answer"] if found else None


def main(words: list[str]) -> None:
    shop = Shop(connect())
    match words:
        case ["fill"]:
            shop.fill()
        case ["search", text, *options]:
            given = dict(option.split("=", 1) for option in options)
            for row in shop.search(text, given.get("color"), float(given["max"]) if "max" in given else None):
                print(f"{row['price']:>6}  {row['name']}")
            print("brands:", shop.facets(text, "brand"), "colors:", shop.facets(text, "colors"))
        case ["similar", ware]:
            print(*shop.similar(ware), sep="\n")
        case _:
            print(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
