import json
import subprocess
from pathlib import Path

import pytest
from shop import Answers, Shop, SoldOut, connect


@pytest.fixture
def client():
    client = connect()
    for key in [*client.scan_iter("ware:*"), *client.scan_iter("answer:*")]:
        client.delete(key)
    return client


@pytest.fixture
def shop(client):
    shop = Shop(client)
    shop.fill()
    return shop


def test_words_are_found_in_their_forms(shop):
    names = {row["name"] for row in shop.search("run")}
    assert names == {"Road *running* shoes", "Trail *running* shoes", "*Running* socks", "Rain jacket"}


def test_a_search_is_narrowed(shop):
    assert [row["id"] for row in shop.search("shoes", color="red", max_price=90)] == ["ware:w3"]
    assert {row["id"] for row in shop.search("", color="green")} == {"ware:w2", "ware:w5"}
    assert shop.search('-)(@|"{') != []


def test_facets_count_what_is_found(shop):
    assert shop.facets("shoes", "brand") == {"Hermes": 2, "Bata": 1}
    assert shop.facets("jacket", "colors") == {"blue": 1, "green": 1, "red": 1}


def test_what_is_sold_out_is_not_similar_from_then_on(shop):
    assert shop.similar("w1") == ["ware:w2", "ware:w3"]
    assert (shop.sell("w2"), shop.sell("w2")) == (1, 0)
    with pytest.raises(SoldOut):
        shop.sell("w2")
    assert "ware:w2" not in shop.similar("w1")


def test_a_question_near_to_one_before_gets_its_answer(client):
    answers = Answers(client)
    assert answers.get("When do you open on Sunday?") is None
    answers.put("When do you open on Sunday?", "At ten.")
    assert answers.get("when do you open on sunday") == "At ten."
    assert answers.get("Do you open on Sunday? When?") == "At ten."
    assert answers.get("Do you sell boots?") is None


def counter(*words):
    """The other program, in Node, with `redis.search` over the same keys."""
    done = subprocess.run(["node", Path(__file__).with_name("counter.mjs"), *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_counter_finds_misspelt_wares_and_reports(shop):
    found = counter("search", "runing shose", "100")
    assert found[0] == {"ware": "ware:w1", "name": "Road running shoes", "price": 95}
    assert {row["ware"] for row in found} == {"ware:w1", "ware:w3", "ware:w4", "ware:w6"}
    assert counter("search", "wool jacket")[0]["ware"] != "ware:w5", "it is sold out"
    assert counter("report") == {
        "brands": [
            {"brand": "Aquila", "wares": 2, "stock": 1, "dearest": 150},
            {"brand": "Bata", "wares": 2, "stock": 39, "dearest": 40},
            {"brand": "Hermes", "wares": 2, "stock": 6, "dearest": 120},
        ],
        "prices": {"*-50": 2, "50-100": 2, "100-*": 2},
        "pieces": 46,
    }


def test_what_either_writes_is_found_by_both(shop):
    assert shop.sell("w4") == 0
    assert "ware:w4" not in {row["ware"] for row in counter("search", "jacket")}
    with pytest.raises(SoldOut):
        shop.sell("w5")
    assert "ware:w5" not in shop.similar("w4")
    assert counter("restock", "w5", "2") == 2
    assert shop.similar("w4", 1) == ["ware:w5"]
    assert counter("search", "jacket") == [{"ware": "ware:w5", "name": "Wool jacket", "price": 150}]
    assert shop.sell("w5") == 1
    shop.client.hset("ware:w7", mapping={"name": "Straw hat", "brand": "Bata", "price": 9, "stock": 1})
    assert counter("search", "hat") == [{"ware": "ware:w7", "name": "Straw hat", "price": 9}]
    shop.client.delete("ware:w7")
    assert counter("search", "hat") == []
