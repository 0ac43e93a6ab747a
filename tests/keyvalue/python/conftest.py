"""FoundationDB's Python binding, unmodified, on our libfdb_c.so.

The library is loaded by its path first; the binding then finds it by its name. A process has one network, which runs until the process ends,
so everything here shares it; servers come and go.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

import pytest

from harness.server import ROOT, Server, free_port
from harness.target import OVER_A_CLUSTER

LIBRARY = Path(os.environ.get("QUARTET_FDB_C", ROOT / "target" / "release" / "libfdb_c.so"))
API_VERSION = 730


def _binding():
    ctypes.CDLL(str(LIBRARY), mode=ctypes.RTLD_GLOBAL)
    import fdb

    if not fdb.is_api_version_selected():
        fdb.api_version(API_VERSION)
    return fdb


@pytest.fixture(scope="session")
def fdb():
    return _binding()


class KeyValueServer(Server):
    """One that keeps its port over a restart, since clients know only what the cluster file says."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.keyvalue_address = f"127.0.0.1:{free_port()}"
        handle, self.cluster_file = tempfile.mkstemp(prefix="quartet-cluster-", text=True)
        with os.fdopen(handle, "w") as file:
            file.write(f"quartet:dev@{self.keyvalue_address}\n")

    def close(self) -> None:
        super().close()
        Path(self.cluster_file).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def keyvalue_server(request, tmp_path_factory):
    if OVER_A_CLUSTER:
        server = request.getfixturevalue("_session_server")
        file = tmp_path_factory.mktemp("cluster") / "fdb.cluster"
        file.write_text(f"quartet:dev@{server.keyvalue_address}\n")
        server.cluster_file = str(file)
        yield server
        return
    server = KeyValueServer().start()
    yield server
    server.close()


@pytest.fixture
def database(fdb, keyvalue_server):
    """An empty database."""
    database = fdb.open(keyvalue_server.cluster_file)
    database.clear_range(b"", b"\xff")
    return database
