"""What a program sees that uses the library itself, from C: futures end, whatever becomes of the network."""

from __future__ import annotations

import subprocess
import sys

from harness.server import free_port

from .conftest import LIBRARY

# A process has one network, so the program is one of its own.
PROGRAM = """
import ctypes, sys, threading
c = ctypes.CDLL(sys.argv[1])
handle, number = ctypes.c_void_p, ctypes.c_int
for name in ("fdb_transaction_get", "fdb_transaction_commit", "fdb_transaction_get_range", "fdb_transaction_get_read_version"):
    getattr(c, name).restype = handle
called = []
CALLBACK = ctypes.CFUNCTYPE(None, handle, handle)
callback = CALLBACK(lambda future, parameter: called.append(parameter))
assert c.fdb_select_api_version_impl(730, 730) == 0
assert c.fdb_setup_network() == 0
network = threading.Thread(target=c.fdb_run_network)
network.start()
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


def test_futures_end_with_their_transaction_and_with_the_network(tmp_path):
    cluster = tmp_path / "fdb.cluster"
    cluster.write_text(f"quartet:dev@127.0.0.1:{free_port()}\n")
    command = [sys.executable, "-c", PROGRAM, str(LIBRARY), str(cluster)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    cancelled, stopped, late = done.stdout.splitlines()
    assert cancelled == "cancelled 1101 1025 1025 1025"
    assert stopped == "stopped 1100 1100 1100 1100 [1, 2, 3, 4]"
    assert late.startswith("late ") and late != "late 0"
