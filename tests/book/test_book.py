"""The documentation: the site builds, its links lead somewhere, and the commands in it do what it says.

A fence with `run` behind its language is run, one with `server` is the page's server, and a `text,output` right behind a run
has its output. Each page runs in an empty folder and in a network of its own, so that it has the usual ports for itself.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.installed import CLIENTS, run
from harness.server import ROOT, binary

DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w+),(run|server|output)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NODE_PATH = ":".join(str(ROOT / "tests" / layer / "node" / "node_modules") for layer in ("redis", "dynamodb", "fauna"))
# Processes of its own too: a page that fails leaves none of its servers behind.
ALONE = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *([] if os.geteuid() == 0 else ["--map-root-user"])]
PROGRAMS = {"sh": "bash -euo pipefail", "js": "node"}
# A page whose clients need versions of their own has an environment with them, which `./test` makes.
PYTHONS = {"docs/start/ai.md": ROOT / "target" / "examples-agent-venv" / "bin" / "python"}
# What a page takes for granted; it runs before the page's server.
SETUPS = {"docs/cluster.md": ROOT / "tests" / "book" / "machines.sh"}
SUFFIXES = {"sh": "sh", "python": "py", "js": "cjs"}


@dataclass
class Page:
    server: str | None
    # Language, text and expected output, which is None where the page shows none.
    runs: list[tuple[str, str, str | None]]


def page(path: Path) -> Page:
    found = Page(None, [])
    for language, kind, text in FENCE.findall(path.read_text()):
        if kind == "server":
            found.server = text
        elif kind == "run":
            found.runs.append((language, text, None))
        else:
            found.runs[-1] = (*found.runs[-1][:2], text)
    return found


PAGES = {str(path.relative_to(ROOT)): path for path in [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))] if page(path).runs}
# Programs that pages name, and the library that FoundationDB's binding loads.
BESIDE = [ROOT / "examples" / "four-clients" / "greet.py"]
LIBRARY = {"LD_LIBRARY_PATH": str(Path(binary()).parent), "FDB_CLUSTER_FILE": "quartet-data/fdb.cluster"}


def test_the_site_builds_and_its_links_lead_somewhere(tmp_path):
    run([sys.executable, ROOT / "book" / "build.py", "--binary", binary(), "--out", tmp_path / "book"])
    assert "QUARTET_DURABILITY" in (tmp_path / "book" / "html" / "reference" / "settings.html").read_text()


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    sys.path.insert(0, str(ROOT / "book"))
    import build

    (tmp_path / "a.html").write_text('<h1 id="top"></h1><a href="b.html"></a><a href="#gone"></a><a href="#top"></a>')
    assert build.dead_links(tmp_path) == ["a.html: #gone names no heading", "a.html: nothing is at b.html"]


OF_ETCD = {"listen-client-urls", "listen-peer-urls", "log-level"}


def options(*command: str) -> set[str]:
    """The options of a command and of those below it, as its help has them."""
    told = run([binary(), *command, "--help"])
    below = re.search(r"^Commands:\n((?:  .*\n)+)", told, re.MULTILINE)
    names = re.findall(r"^  ([a-z][a-z-]*)", below[1], re.MULTILINE) if below else []
    return set(re.findall(r"^ +(?:-\w, )?--([\w-]+)", told, re.MULTILINE)).union(*(options(*command, name) for name in names if name != "help"))


def test_options_that_pages_name_are_there():
    """A page named `--dynamodb-access-key`, which the program refuses. Judged are names that begin as an option of the program does."""
    known = options()
    families = {name.split("-")[0] for name in known if "-" in name}
    for path in [ROOT / "README.md", ROOT / "packaging" / "README.md", *DOCS.rglob("*.md")]:
        named = set(re.findall(r"--([a-z]+-[a-z-]*[a-z])\b", path.read_text()))
        unknown = {name for name in named - known - OF_ETCD if name.split("-")[0] in families}
        assert not unknown, path.relative_to(ROOT)


# Commands of the pages of clusters that do not run here, and what shows that they do what they say.
ELSEWHERE = {
    "QUARTET_ROOT_KEY=$(openssl rand -hex 32) docker compose -f compose.cluster.yaml up": "needs Docker; tests/packages starts its processes as written",
    "cd packaging/docker": "the folder of the line before",
    "helm install shop packaging/helm/quartet": "needs Kubernetes; tests/packages renders the chart and starts its processes as written",
    "chown 65532 quartet-*.key": "needs root; tests/packages starts the image's processes with these keys",
    "QUARTET_ETCD=/usr/bin/etcd cargo bench -p quartet-log-etcd --bench measure": "compiles and measures for minutes",
}
# Commands that pages name within a sentence, which no page runs.
NAMED_ELSEWHERE = {
    "quartet convert": "tests/cluster/python/test_founding.py",
    "quartet import dynamodb": "docs/migrate/dynamodb.md has its options",
    "quartet admin partitions": "tests/cluster/python/test_partitions.py",
    "quartet admin move": "tests/cluster/python/test_homes.py",
    "etcdctl alarm disarm": "needs an etcd without room: tests/cluster/python/test_etcd_without_room.py",
}
COMMAND = re.compile(r"(?:quartet (?:admin|cluster|import) [a-z][a-z-]*|quartet [a-z][a-z-]*|etcdctl (?:[a-z]+ )?[a-z]+)")


@pytest.mark.parametrize("name", ["docs/cluster.md", "docs/cluster-operations.md"])
def test_every_command_of_a_cluster_is_run(name):
    """Most of them were plain text, which nothing ran."""
    text = (ROOT / name).read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$|^((?:    (?:QUARTET_\w+=\S+ )?(?:quartet|etcd|etcdctl|cargo|python|curl) [^\n]*\n)+)", text, re.MULTILINE | re.DOTALL)
    left = [line.strip() for block in blocks for line in re.sub(r"\\\n\s*", "", "".join(block)).splitlines()]
    assert [line for line in left if not line.startswith(tuple(ELSEWHERE))] == []
    run = "".join(text for path in PAGES.values() for _, text, _ in page(path).runs) + (page(ROOT / name).server or "")
    named = {command for code in re.findall(r"`([^`]+)`", text) for command in COMMAND.findall(code) if code.startswith(command)}
    assert {command for command in named if command not in run} - NAMED_ELSEWHERE.keys() == set()


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_a_page_run(name, tmp_path):
    told = page(PAGES[name])
    python = PYTHONS.get(name, sys.executable)
    clients = {"PYTHONPATH": CLIENTS} if name not in PYTHONS else {}
    programs = {**PROGRAMS, "python": shlex.quote(str(python))}
    for path in BESIDE:
        (tmp_path / path.name).symlink_to(path)
    for program, path in (("quartet", binary()), ("python", python)):
        (tmp_path / program).symlink_to(path)
    lines = ["ip link set lo up"]
    if name in SETUPS:
        lines.append(f". {shlex.quote(str(SETUPS[name]))}")
    if told.server is not None:
        (tmp_path / "server.sh").write_text("exec env " + told.server if "=" in told.server.split()[0] else "exec " + told.server)
        lines += ["bash server.sh >server.out 2>&1 & server=$!", "until grep -qx ready server.out; do kill -0 $server; sleep 0.02; done"]
    for number, (language, text, _) in enumerate(told.runs):
        file = f"{number}.{SUFFIXES[language]}"
        (tmp_path / file).write_text(text)
        lines.append(f"{programs[language]} {file} >{number}.out")
    if told.server is not None:
        lines.append("kill $server; wait $server")
    # Debian's etcd is older than the pages' version, which needs no permission.
    environment = {"QUARTET_ETCD_ALLOW_STALE_READS": "true", "PATH": f"{tmp_path}:{os.environ['PATH']}", "NODE_PATH": NODE_PATH, **clients, **LIBRARY}
    run([*ALONE, "bash", "-euc", "\n".join(lines)], cwd=tmp_path, **environment)
    for number, (_, text, output) in enumerate(told.runs):
        if output is not None:
            assert (tmp_path / f"{number}.out").read_text().strip() == output.strip(), text
