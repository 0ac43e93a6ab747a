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
