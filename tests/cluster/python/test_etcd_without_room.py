"""etcd has no room any more: writes are refused, reads go on, and so do writes once an operator has made room."""

import base64
import contextlib
import time
import urllib.error

import redis
from harness.cluster import Cluster, until

QUOTA_BYTES = 32 << 20
VALUE_BYTES = 1 << 20


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def fill(etcd) -> None:
    """As somebody else does who keeps keys in the same etcd."""
    for number in range(2 * QUOTA_BYTES // VALUE_BYTES):
        with contextlib.suppress(OSError, ValueError):
            etcd.ask(0, "kv/put", seconds=60, key=encoded(b"other/%d" % number), value=encoded(bytes(VALUE_BYTES)))
        with contextlib.suppress(OSError, ValueError):
            if alarms(etcd):
                return
    raise AssertionError("etcd has room without an end")


def alarms(etcd) -> list:
    return etcd.ask(0, "maintenance/alarm", seconds=60, action="GET").get("alarms", [])


def make_room(etcd) -> None:
    """Again from the beginning, if it was interrupted: a revision that is dropped already is refused."""
    etcd.ask(0, "kv/deleterange", seconds=60, key=encoded(b"other/"), range_end=encoded(b"other0"))
    with contextlib.suppress(urllib.error.HTTPError):
        etcd.compact(0)
    for member in range(3):
        etcd.ask(member, "maintenance/defragment", seconds=60)
    for alarm in alarms(etcd):
        etcd.ask(0, "maintenance/alarm", seconds=60, action="DEACTIVATE", alarm="NOSPACE", memberID=alarm["memberID"])


def done(act) -> bool:
    try:
        return bool(act())
    except (redis.RedisError, OSError, ValueError):
        return False


def test_writes_are_refused_while_etcd_has_no_room_and_go_on_behind_it():
    sizes = ["--etcd-budget-bytes", str(QUOTA_BYTES // 8), "--etcd-quota-bytes", str(QUOTA_BYTES)]
    with Cluster(options=sizes, etcd_options=[f"--quota-backend-bytes={QUOTA_BYTES}"]) as cluster:
        clients = [redis.Redis(port=node.port, socket_timeout=20, retry=None) for node in cluster.nodes]
        until(lambda: done(lambda: clients[0].set("before", "kept")), "a write is acknowledged")
        fill(cluster.etcd)
        began = time.monotonic()
        # The write that finds it out stays without an answer until there is room.
        writer = redis.Redis(port=cluster.nodes[0].port, socket_timeout=8, retry=None)

        def is_refused() -> bool:
            try:
                writer.set("refused", "or not")
            except redis.ResponseError:
                return True
            except (redis.RedisError, OSError):
                return False
            return False

        until(is_refused, "writes are refused")
        # Longer than the lease of the key by which the nodes know where the home is: it cannot be written any more, only kept.
        until(lambda: time.monotonic() > began + 12, "the lease would have run out")
        for client in clients:
            until(lambda client=client: done(lambda: client.get("before") == b"kept"), "reads go on at every node")
        until(lambda: done(lambda: make_room(cluster.etcd) or not alarms(cluster.etcd)), "etcd has room")
        for client in clients:
            until(lambda client=client: done(lambda: client.set("behind", "kept")), "writes go on")
