"""Commands of search are judged by one selector of the user's rules: what it may run and which keys it may read belong together.

Reported: a selector `(~b* +get)` let a user with `+@all` for other keys search, alter, drop and alias an index over `b*`, because the
command was judged by one selector and the prefixes by another. Lists of indexes, aliases and dictionaries showed names and words to
users who may not read them, and FT.CONFIG changed what `-config` forbids.
"""

from __future__ import annotations

import pytest

from harness.resp import ReplyError

ON_AN_INDEX = [
    "FT.SEARCH {} *",
    "FT.AGGREGATE {} *",
    "FT.HYBRID {} SEARCH * VSIM @v $q PARAMS 2 q 1",
    "FT.PROFILE {} SEARCH QUERY *",
    "FT.PROFILE {} AGGREGATE QUERY *",
    "FT.INFO {}",
    "FT.EXPLAIN {} word",
    "FT.EXPLAINCLI {} word",
    "FT.TAGVALS {} tag",
    "FT.SPELLCHECK {} wort",
    "FT.SYNDUMP {}",
    "FT.SYNUPDATE {} group word",
    "FT.ALTER {} SCHEMA ADD other TEXT",
    "FT._ALTERIFNX {} SCHEMA ADD other TEXT",
    "FT.ALIASADD name {}",
    "FT._ALIASADDIFNX name {}",
    "FT.ALIASUPDATE name {}",
    "FT.ALIASUPDATE alias-of-{} open",
    "FT.ALIASDEL alias-of-{}",
    "FT._ALIASDELIFX alias-of-{}",
    "FT.ALIASLIST {}",
    "FT.CURSOR READ {} 1",
    "FT.DROPINDEX {}",
    "FT.DROPINDEX {} DD",
    "FT._DROPINDEXIFX {} DD",
    "SEARCH.QUERY b:{} {{}}",
    "SEARCH.COUNT b:{} {{}}",
    "SEARCH.DESCRIBE b:{}",
    "SEARCH.REINDEX b:{}",
    "SEARCH.DROP b:{}",
    "SEARCH.ALIASADD name b:{}",
    "SEARCH.ALIASDEL b:alias",
]
MAKING = [
    "FT.CREATE new PREFIX 1 b: SCHEMA t TEXT",
    "FT._CREATEIFNX new PREFIX 1 b: SCHEMA t TEXT",
    "FT.CREATE new SCHEMA t TEXT",
    "SEARCH.CREATE a:new ON HASH PREFIX 1 b: SCHEMA t TEXT",
]
MADE = [
    "FT.CREATE open PREFIX 1 a: SCHEMA t TEXT tag TAG",
    "FT.CREATE secret PREFIX 1 b: SCHEMA t TEXT tag TAG",
    "FT.ALIASADD alias-of-open open",
    "FT.ALIASADD alias-of-secret secret",
    "SEARCH.CREATE a:open ON HASH PREFIX 1 a: SCHEMA t TEXT",
    "SEARCH.CREATE b:secret ON HASH PREFIX 1 b: SCHEMA t TEXT",
    "SEARCH.ALIASADD a:alias a:open",
    "SEARCH.ALIASADD b:alias b:secret",
    "SEARCH.ALIASADD b:other b:nothing",
    "HSET b:1 t word tag hidden",
    "HSET a:1 t word tag shown",
    "FT.DICTADD a:words shown",
    "FT.DICTADD b:words hidden",
]


@pytest.fixture
def admin(open_connection):
    connection = open_connection()
    connection.do("FLUSHALL")
    for command in MADE:
        assert not isinstance(connection.do(*command.split()), ReplyError), command
    yield connection
    connection.do("ACL", "DELUSER", "user")
    connection.do("FLUSHALL")


@pytest.fixture
def as_user(admin, open_connection):
    def log_in(*rules: str):
        assert admin.do("ACL", "SETUSER", "user", "reset", "on", "nopass", *rules) == "OK"
        connection = open_connection()
        assert connection.do("AUTH", "user", "any") == "OK"
        return connection

    return log_in


def is_refused(reply) -> bool:
    return isinstance(reply, ReplyError) and reply.startswith("NOPERM")


@pytest.mark.parametrize("command", [*(command.format("secret") for command in ON_AN_INDEX), *MAKING])
def test_keys_of_one_selector_and_commands_of_another_do_not_add_up(as_user, admin, command):
    user = as_user("~a:*", "+@all", "(~b:* +get)")
    assert is_refused(user.do(*command.split())), command
    assert user.do("GET", "b:none") is None
    assert not isinstance(admin.do("FT.INFO", "alias-of-secret"), ReplyError)


@pytest.mark.parametrize("command", [*(command.format("secret") for command in ON_AN_INDEX), *MAKING])
def test_a_selector_that_has_both_is_enough(as_user, command):
    user = as_user("~c:*", "-@all", "(~* +@all)")
    assert not is_refused(user.do(*command.split())), command


def test_names_are_shown_to_those_who_may_read_what_they_stand_for(as_user):
    user = as_user("~a:*", "+@all", "(~b:* +get)")
    assert sorted(user.do("FT._LIST")) == ["open"]
    assert [entry[1] for entry in user.do("SEARCH.LISTINDEXES")] == ["a:open"]
    assert user.do("SEARCH.LISTALIASES") == [["a:alias", "a:open"]]
    everybody = as_user("~*", "+@all")
    assert sorted(everybody.do("FT._LIST")) == ["open", "secret"]
    assert [entry[1] for entry in everybody.do("SEARCH.LISTINDEXES")] == ["a:open", "b:secret"]
    assert len(everybody.do("SEARCH.LISTALIASES")) == 3


def test_a_dictionary_is_judged_by_its_name(as_user):
    user = as_user("~a:*", "+@all", "(~b:* +get)")
    for command in ("FT.DICTDUMP b:words", "FT.DICTADD b:words more", "FT.DICTDEL b:words hidden"):
        assert is_refused(user.do(*command.split())), command
    for option in ("INCLUDE", "EXCLUDE"):
        assert is_refused(user.do("FT.SPELLCHECK", "open", "hiden", "TERMS", option, "b:words"))
        assert not is_refused(user.do("FT.SPELLCHECK", "open", "hiden", "TERMS", option, "a:words"))
    assert user.do("FT.DICTDUMP", "a:words") == ["shown"]
    assert is_refused(as_user("%R~a:*", "+@all").do("FT.DICTADD", "a:words", "more"))


def test_settings_of_search_are_settings(as_user):
    user = as_user("~*", "+@all", "-config")
    assert is_refused(user.do("FT.CONFIG", "SET", "TIMEOUT", "0"))
    assert is_refused(user.do("FT.CONFIG", "GET", "TIMEOUT"))
    assert as_user("~*", "+@all", "-config|set").do("FT.CONFIG", "GET", "TIMEOUT") == [["TIMEOUT", "500"]]
