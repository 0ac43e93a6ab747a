"""Logging in with tokens of another issuer, whose keys are fetched from it."""

from __future__ import annotations

import itertools
import time

import pytest
from faunadb import query as q
from faunadb.errors import BadRequest, PermissionDenied, Unauthorized

from harness import certificates
from harness.fauna import connect
from harness.issuer import EllipticKey, Issuer, RsaKey
from harness.server import Server

names = itertools.count(1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def trusting(made):
    server = Server(options=["--fauna-issuer-roots", str(made.root)]).start()
    yield server
    server.close()


@pytest.fixture
def issuer(made):
    issuer = Issuer(made)
    yield issuer
    issuer.close()


@pytest.fixture
def admin(trusting):
    root, name = connect(trusting), f"issued-{next(names)}"
    root.query(q.create_database({"name": name}))
    key = root.query(q.create_key({"database": q.database(name), "role": "admin"}))
    client = connect(trusting, key["secret"])
    client.name = name
    client.query(q.create_collection({"name": "notes"}))
    actions = {"create": True, "read": True}
    client.query(q.create_role({"name": "writer", "privileges": [{"resource": q.collection("notes"), "actions": actions}]}))
    client.query(q.create_role({"name": "maker", "privileges": [{"resource": q.collections(), "actions": {"create": True}}]}))
    return client


def provider(admin, issuer: Issuer, roles, issued_by: str = "https://issuer/", path: str = "keys"):
    made = admin.query(q.create_access_provider({"name": f"p{next(names)}", "issuer": issued_by, "jwks_uri": issuer.uri(path), "roles": roles}))
    return made


def claims(provider, **more) -> dict:
    now = int(time.time())
    return {"iss": provider["issuer"], "aud": [provider["audience"], "https://issuer/userinfo"], "iat": now, "exp": now + 600, "sub": "amy", **more}


@pytest.mark.parametrize("kind", [RsaKey, EllipticKey])
def test_a_token_opens_what_its_roles_allow(trusting, admin, issuer, kind):
    key = kind("one")
    issuer.keys = [EllipticKey("another"), key]
    allowed = provider(admin, issuer, [q.role("writer")])
    mine = connect(trusting, issuer.token(key, claims(allowed, level=7)))
    made = mine.query(q.create(q.collection("notes"), {"data": {"n": 1}}))
    assert mine.query(q.get(made["ref"]))["data"] == {"n": 1}
    with pytest.raises(PermissionDenied):
        mine.query(q.create_collection({"name": "more"}))
    assert mine.query(q.current_identity()) == "amy"
    assert mine.query([q.has_current_identity(), q.has_current_token()]) == [True, True]
    assert mine.query(q.select("level", q.current_token())) == 7
    assert issuer.asked == 1


def test_predicates_choose_roles(trusting, admin, issuer):
    key = RsaKey("one")
    issuer.keys = [key]
    over = lambda least: q.query(q.lambda_("claims", q.gte(q.select("level", q.var("claims")), least)))
    allowed = provider(admin, issuer, [{"role": q.role("writer"), "predicate": over(1)}, {"role": q.role("maker"), "predicate": over(5)}])
    low, high, nobody = (connect(trusting, issuer.token(key, claims(allowed, level=level))) for level in (1, 5, 0))
    low.query(q.create(q.collection("notes"), {}))
    with pytest.raises(PermissionDenied):
        low.query(q.create_collection({"name": "more"}))
    high.query(q.create_collection({"name": "more"}))
    with pytest.raises(Unauthorized):
        nobody.query(1)
    with pytest.raises(Unauthorized):
        connect(trusting, issuer.token(key, claims(allowed))).query(1)


def test_faults_that_make_a_token_worthless(trusting, admin, issuer):
    key, stranger = RsaKey("one"), RsaKey("one")
    issuer.keys = [key]
    allowed = provider(admin, issuer, [q.role("writer")])
    now = int(time.time())
    wrong = {
        "expired": issuer.token(key, claims(allowed, exp=now - 1)),
        "not yet": issuer.token(key, claims(allowed, nbf=now + 600)),
        "issuer": issuer.token(key, claims(allowed, iss="https://other/")),
        "audience": issuer.token(key, claims(allowed, aud="https://db.fauna.com/db/yyyyyyyyyyyyy")),
        "no audience": issuer.token(key, {**claims(allowed), "aud": "somebody"}),
        "signature": issuer.token(stranger, claims(allowed)),
        "none": issuer.token(key, claims(allowed), alg="none"),
        "shared": issuer.token(key, claims(allowed), alg="HS256"),
        "another algorithm": issuer.token(key, claims(allowed), alg="ES256"),
        "nonsense": "eyJ.a.b",
    }
    assert connect(trusting, issuer.token(key, claims(allowed))).query(1) == 1
    for what, token in wrong.items():
        with pytest.raises(Unauthorized):
            connect(trusting, token).query(1)
            pytest.fail(what)
    with pytest.raises(Unauthorized):
        connect(trusting, issuer.token(key, claims(allowed)) + ":admin").query(1)


def test_keys_change_and_issuers_fail(trusting, admin, issuer):
    old, new = RsaKey("old"), EllipticKey("new")
    issuer.keys = [old]
    allowed = provider(admin, issuer, [q.role("writer")])
    assert connect(trusting, issuer.token(old, claims(allowed))).query(1) == 1
    issuer.keys = [new]
    deadline = time.monotonic() + 60
    while True:  # It is asked again as soon as that is due.
        try:
            assert connect(trusting, issuer.token(new, claims(allowed))).query(1) == 1
            break
        except Unauthorized:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    with pytest.raises(Unauthorized):
        connect(trusting, issuer.token(old, claims(allowed))).query(1)
    assert issuer.asked <= 4
    admin.query(q.delete(allowed["ref"]))
    with pytest.raises(Unauthorized):
        connect(trusting, issuer.token(new, claims(allowed))).query(1)


@pytest.mark.parametrize("status, body", [(500, b"{}"), (302, b"{}"), (200, b"no json"), (200, b'{"keys":[' + b" " * (300 << 10) + b"]}")])
def test_fetched_keys_are_not_trusted(trusting, admin, issuer, status, body):
    key = RsaKey("one")
    issuer.status, issuer.body = status, body
    allowed = provider(admin, issuer, [q.role("writer")])
    with pytest.raises(Unauthorized):
        connect(trusting, issuer.token(key, claims(allowed))).query(1)
    assert issuer.asked == 1


def test_nothing_private_is_asked_without_leave(server, made, issuer):
    """A server that trusts the public certificates asks no address of this machine."""
    key, client = RsaKey("one"), connect(server)
    issuer.keys = [key]
    role = f"r{next(names)}"
    client.query(q.create_role({"name": role, "privileges": []}))
    allowed = provider(client, issuer, [role], issued_by=f"https://issuer-{next(names)}/")
    with pytest.raises(Unauthorized):
        connect(server, issuer.token(key, claims(allowed))).query(1)
    assert issuer.asked == 0


def test_required_fields_of_a_provider(admin, issuer):
    good = {"name": "p", "issuer": "i", "jwks_uri": issuer.uri()}
    for wrong, code in [({"jwks_uri": "http://localhost/keys"}, "invalid uri"), ({"roles": [7]}, "invalid type"), ({"issuer": None}, "value required")]:
        with pytest.raises(BadRequest) as refused:
            admin.query(q.create_access_provider({**good, **wrong}))
        assert [failure.code for failure in refused.value.errors[0].failures] == [code]
    admin.query(q.create_access_provider(good))
    with pytest.raises(BadRequest) as refused:
        admin.query(q.create_access_provider({**good, "name": "other"}))
    assert refused.value.errors[0].failures[0].code == "duplicate value"


def test_a_secret_tells_its_database(trusting, admin, issuer):
    key = RsaKey("one")
    issuer.keys = [key]
    allowed = provider(admin, issuer, [q.role("writer")])
    told = connect(trusting).query(q.key_from_secret(issuer.token(key, claims(allowed))))
    assert told["database"].id() == admin.name


def test_a_stream_with_a_token(trusting, admin, issuer):
    import httpx

    key = EllipticKey("one")
    issuer.keys = [key]
    allowed = provider(admin, issuer, [q.role("writer")])
    note = admin.query(q.create(q.collection("notes"), {"data": {"n": 0}}))["ref"]
    token = issuer.token(key, claims(allowed))
    body = '{"ref":{"collection":"notes"},"id":"%s"}' % note.id()
    with httpx.Client(http1=False, http2=True, timeout=60) as client:
        url = f"http://127.0.0.1:{trusting.fauna_port}/stream"
        with client.stream("POST", url, content=body, headers={"Authorization": f"Bearer {token}"}) as reply:
            assert reply.status_code == 200
            lines = reply.iter_lines()
            assert '"start"' in next(lines)
            admin.query(q.update(note, {"data": {"n": 1}}))
            assert '"n":1' in next(lines)
