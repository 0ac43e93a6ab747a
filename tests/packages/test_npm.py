"""The packages of npm: installed into an empty folder, used from both kinds of modules."""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
from pathlib import Path

from harness.installed import is_alive, run, until
from harness.server import ROOT

PROGRAMS = Path(__file__).parent / "node"
CLIENTS = ":".join(str(ROOT / "tests" / layer / "node" / "node_modules") for layer in ("redis", "dynamodb", "fauna"))


def test_clients_of_every_layer_find_the_server(clean_node):
    program = place(clean_node, "clients.cjs")
    assert json.loads(run(["node", program], NODE_PATH=CLIENTS)) == {"redis": "hello", "rest": "hello", "dynamodb": [], "fauna": 3, "cluster": True}


def test_it_is_a_module_of_the_other_kind_too(clean_node):
    assert run(["node", place(clean_node, "module.mjs")]) == "redis rest dynamodb fauna\n"


def test_a_program_that_forgets_to_stop_ends_all_the_same(clean_node):
    server = int(run(["node", place(clean_node, "forgetful.cjs")]))
    until(lambda: not is_alive(server))


def test_the_server_ends_with_a_killed_program(clean_node):
    process = subprocess.Popen(["node", place(clean_node, "waiting.cjs")], stdout=subprocess.PIPE, text=True)
    server = int(process.stdout.readline())
    assert is_alive(server)
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not is_alive(server))


def test_the_command_is_the_binary(clean_node):
    assert run([clean_node / "node_modules" / ".bin" / "quartet", "--version"]).startswith("quartet 0.")


def test_the_library_for_bindings_of_foundationdb_is_there(clean_node):
    library = run(["node", "-p", "require('quartet-server').library()"], cwd=clean_node).strip()
    ctypes.CDLL(library).fdb_get_max_api_version.restype = ctypes.c_int


def test_nothing_runs_at_install_and_the_platform_is_named(clean_node):
    common = manifest(clean_node, "quartet-server")
    platform = manifest(clean_node, "quartet-server-linux-x64")
    assert "scripts" not in common and "scripts" not in platform
    assert (platform["os"], platform["cpu"]) == (["linux"], ["x64"])
    assert common["optionalDependencies"]["quartet-server-linux-x64"] == platform["version"] == common["version"]


def manifest(folder: Path, package: str) -> dict:
    return json.loads((folder / "node_modules" / package / "package.json").read_text())


def place(folder: Path, name: str) -> Path:
    """Beside the installed packages, as an application's own file is."""
    target = folder / name
    target.write_text((PROGRAMS / name).read_text())
    return target
