"""Records what the original saves of its modules: `python record_files.py` writes tests/redis/testdata/redis-stack.rdb anew."""

from __future__ import annotations

import shutil
from pathlib import Path

from oracle import Oracle
from record import free_port

TARGET = Path(__file__).resolve().parents[1] / "redis/testdata/redis-stack.rdb"
REQUESTS = [
    ["JSON.SET", "bike:1", "$", '{"model":"Hopper","kind":["road","gravel"],"price":900}'],
    ["JSON.SET", "bike:2", "$", '{"model":"Quaker","kind":["road"],"price":1600.5}'],
    ["PEXPIREAT", "bike:2", 4_000_000_000_000],
    ["HSET", "text:1", "title", "a quick fox", "n", 3],
    ["FT.SUGADD", "models", "Hopper", 2],
    ["FT.SUGADD", "models", "hop", 0.5, "PAYLOAD", "more"],
    ["BF.ADD", "filter", "x"],
    ["CMS.INITBYDIM", "sketch", 2, 2],
    ["FT.CREATE", "bikes", "ON", "JSON", "PREFIX", 1, "bike:", "SCHEMA", "$.model", "AS", "model", "TEXT", "$.kind[*]", "AS", "kind", "TAG", "$.price"]
    + ["AS", "price", "NUMERIC", "SORTABLE"],
    ["FT.CREATE", "texts", "PREFIX", 1, "text:", "STOPWORDS", 1, "a", "SCHEMA", "title", "TEXT", "WEIGHT", 2, "n", "NUMERIC"],
    ["FT.CREATE", "basque", "LANGUAGE", "basque", "SCHEMA", "title", "TEXT"],
    ["FT.ALIASADD", "shop", "bikes"],
    ["FT.SYNUPDATE", "texts", "animals", "fox", "badger"],
    ["FT.DICTADD", "brands", "hopper", "quaker"],
]


def main() -> None:
    with Oracle(free_port()) as oracle:
        for request in REQUESTS:
            oracle.client.execute_command(*request)
        oracle.client.save()
        shutil.copyfile(Path(oracle.data) / "dump.rdb", TARGET)


if __name__ == "__main__":
    main()
