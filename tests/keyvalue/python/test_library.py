"""What a program sees that uses the library itself, from C: futures end, whatever becomes of the network."""

from __future__ import annotations

import subprocess
import sys

from harness.server import free_port

from .conftest import LIBRARY

# A process has one network, so each program is one of its own.
PRELUDE = """
import ctypes, sys, threading
c = ctypes.CDLL(sys.argv[1])
handle, number = ctypes.c_void_p, ctypes.c_int
FUTURES = "get get_key get_range commit get_read_version watch on_error get_versionstamp get_approximate_size get_addresses_for_key"
for name in FUTURES.split():
    getattr(c, "fdb_transaction_" + name).restype = handle
called = []
CALLBACK = ctypes.CFUNCTYPE(None, handle, handle)
callback = CALLBACK(lambda future, parameter: called.append(parameter))
assert c.fdb_select_api_version_impl(730, 730) == 0
assert c.fdb_setup_network() == 0
network = threading.Thread(target=c.fdb_run_network)
database = handle()
assert c.fdb_create_database(sys.argv[2].encode(), ctypes.byref(database)) == 0

def transaction():
    out = handle()
    assert c.fdb_database_create_transaction(database, ctypes.byref(out)) == 0
    return out

def get(of):
    return handle(c.fdb_transaction_get(of, b"k", 1, 0))

def error(future):
    assert c.fdb_future_block_until_ready(future) == 0
    return c.fdb_future_get_error(future)
"""

WAITING = """
network.start()
# Nothing answers, so all of these wait.
cancelled, destroyed, reset, waiting = (transaction() for _ in range(4))
reads = [get(one) for one in (cancelled, destroyed, reset, waiting)]
writes = transaction()
c.fdb_transaction_set(writes, b"k", 1, b"v", 1)
commit = handle(c.fdb_transaction_commit(writes))
c.fdb_transaction_set(waiting, b"k", 1, b"v", 1)
after_read = handle(c.fdb_transaction_commit(waiting))
version = handle(c.fdb_transaction_get_read_version(transaction()))
given_up = get(transaction())
c.fdb_future_cancel(given_up)
c.fdb_transaction_cancel(cancelled)
c.fdb_transaction_reset(reset)
c.fdb_transaction_destroy(destroyed)
print("cancelled", error(given_up), *(error(read) for read in reads[:3]))
left = [reads[3], commit, after_read, version]
assert not any(c.fdb_future_is_ready(future) for future in left)
for position, future in enumerate(left):
    assert c.fdb_future_set_callback(future, callback, handle(position + 1)) == 0
assert c.fdb_stop_network() == 0
network.join()
print("stopped", *(error(future) for future in left), sorted(called))
late = get(waiting)
print("late", error(late))
"""


NEVER_RUN = """
selector = (b"k", 1, 0, 1)
version = transaction()
c.fdb_transaction_set_read_version(version, ctypes.c_int64(1 << 40))
futures = [handle(future) for future in (
    c.fdb_transaction_get(transaction(), b"k", 1, 0),
    c.fdb_transaction_get(transaction(), None, 0, 0),
    c.fdb_transaction_get(version, b"k", 1, 0),
    c.fdb_transaction_get_key(transaction(), *selector, 0),
    c.fdb_transaction_get_range(transaction(), *selector, *selector, 0, 0, -2, 1, 0, 0),
    c.fdb_transaction_get_read_version(transaction()),
    c.fdb_transaction_get_versionstamp(transaction()),
    c.fdb_transaction_get_addresses_for_key(transaction(), b"k", 1),
    c.fdb_transaction_watch(transaction(), b"k", 1),
    c.fdb_transaction_on_error(transaction(), 1020),
)]
assert c.fdb_stop_network() == 0
network.start()
network.join()
print(*(error(future) for future in futures))
"""

LENDING = """
network.start()
future = handle(c.fdb_transaction_get_approximate_size(transaction()))
for parameter in (1, 2):
    assert c.fdb_future_set_callback(future, callback, handle(parameter)) == 0
size = ctypes.c_int64(-1)
assert error(future) == 0
# There is nothing to release yet.
c.fdb_future_release_memory(future)
for _ in range(2):
    assert c.fdb_future_get_int64(future, ctypes.byref(size)) == 0 and size.value == 0
c.fdb_future_release_memory(future)
assert error(future) == 0
c.fdb_future_release_memory(future)
print("released", error(future), c.fdb_future_get_int64(future, ctypes.byref(size)))
waiting = handle(c.fdb_transaction_get(transaction(), b"k", 1, 0))
for parameter in (3, 4):
    assert c.fdb_future_set_callback(waiting, callback, handle(parameter)) == 0
c.fdb_future_cancel(waiting)
c.fdb_stop_network()
network.join()
print("called", *sorted(called))
"""


def run(tmp_path, program: str) -> list[str]:
    """Lets the program run against an address where nothing answers."""
    cluster = tmp_path / "fdb.cluster"
    cluster.write_text(f"quartet:dev@127.0.0.1:{free_port()}\n")
    command = [sys.executable, "-c", PRELUDE + program, str(LIBRARY), str(cluster)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_futures_end_with_their_transaction_and_with_the_network(tmp_path):
    cancelled, stopped, late = run(tmp_path, WAITING)
    assert cancelled == "cancelled 1101 1025 1025 1025"
    assert stopped == "stopped 1100 1100 1100 1100 [1, 2, 3, 4]"
    assert late.startswith("late ") and late != "late 0"


def test_futures_end_with_a_network_that_never_ran(tmp_path):
    """The connection's task was dropped before it had begun, and nobody told those who waited for the connection."""
    assert run(tmp_path, NEVER_RUN) == [" ".join(["1100"] * 10)]


def test_every_callback_is_called_and_what_was_released_says_so(tmp_path):
    """The second callback took the place of the first, which never came; and a future that was released had no error."""
    assert run(tmp_path, LENDING) == ["released 1102 1102", "called 1 2 3 4"]
