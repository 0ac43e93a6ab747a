"""Several nodes of one cluster over three members of etcd: on loopback, or each on a machine of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence

from harness.certificates import Certificates
from harness.etcd import Etcd
from harness.network import Machine
from harness.server import Server, binary, free_port

HOME_SECONDS_MAX = 60.0
# How long clients may be without a home before the next term begins.
TERM_SECONDS_MAX = 5.0
# Connections of the term before are closed by then.
FAREWELL_SECONDS_MAX = 5.0
# A node that cannot go on from what it has ends so, and copies the home when it is started again.
EXIT_NEEDS_COPY = 75
# It is in a cluster file of FoundationDB as well, so it has letters and digits alone.
ROOT_KEY = "rootKeyOfATest0123456789"


def until(holds, what: str, seconds_max: float = 60.0):
    """What `holds` returns, once that is something."""
    deadline = time.monotonic() + seconds_max
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds_max} s: {what}"
        time.sleep(0.1)
    return found


class Node(Server):
    def __init__(self, cluster: "Cluster", name: str, machine: Machine | None = None, **options):
        self.name = name
        self.machine = machine
        self.starting = threading.Lock()
        # Started, and not ended on purpose. It changes, and a process begins, under the lock.
        self.is_wanted, self.wanting = False, threading.Lock()
        self.node_port, self.sentinel_port = free_port(), free_port()
        host = machine.address if machine else "127.0.0.1"
        own = ["--log", cluster.etcd.log(), "--node-name", name, "--node-listen", f"{host}:{self.node_port}"]
        # Debian's etcd is one whose reads may be stale.
        own += [] if os.environ.get("QUARTET_ETCD") else ["--etcd-allow-stale-reads"]
        own += ["--listen-sentinel", f"{host}:{self.sentinel_port}"]
        if machine:
            options |= {"host": host, "root_key": ROOT_KEY, "prefix": machine.prefix}
        super().__init__("always", options=[*own, *cluster.options], fixed_port=free_port(), **options)
        self.keyvalue_address = f"{host}:{free_port()}"

    def start(self) -> "Node":
        with self.starting:
            self.is_wanted = True
            return self._start()

    def _start(self) -> "Node":
        while True:
            try:
                super().start()
                return self
            except RuntimeError:
                if not self.is_wanted or not self.needs_copy():
                    raise

    def _spawn(self, command: list[str]) -> None:
        """Whoever ends the node while another thread starts it finds no process, or this one."""
        with self.wanting:
            if not self.is_wanted:
                raise RuntimeError(f"{self.name} is not wanted any more")
            super()._spawn(command)

    def needs_copy(self) -> bool:
        """It has ended, and whoever keeps it running is to start it again."""
        return self.process is not None and self.process.poll() == EXIT_NEEDS_COPY

    def start_for_a_copy(self) -> None:
        if self.starting.acquire(blocking=False):
            try:
                if self.is_wanted and self.needs_copy():
                    self._start()
            finally:
                self.starting.release()

    def kill(self) -> None:
        self._is_not_wanted()
        super().kill()

    def stop(self) -> int:
        self._is_not_wanted()
        return super().stop()

    def _is_not_wanted(self) -> None:
        with self.wanting:
            self.is_wanted = False

    def ask(self, path: str, body: object = None, timeout: float = 60):
        """What the HTTP listener answers to whoever has the root key. OSError: it does not."""
        request = urllib.request.Request(
            f"http://{self.host}:{self.http_port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.root_key or 'dev'}"},
        )
        try:
            return urllib.request.urlopen(request, timeout=timeout).read().decode()
        except http.client.HTTPException as broken:
            raise OSError(f"{self.name} broke off") from broken

    def command(self, *words: str) -> subprocess.CompletedProcess:
        """`quartet cluster` at this node."""
        command = [binary(), "cluster", *words, "--server", f"{self.host}:{self.http_port}"]
        command += ["--key", self.root_key] if self.root_key else []
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def status(self) -> dict:
        """OSError: there is none, as while no node is home."""
        shown = self.command("status", "--json")
        if shown.returncode != 0:
            raise OSError(shown.stderr)
        return json.loads(shown.stdout)

    def adopt(self, *words: str) -> subprocess.CompletedProcess:
        """`quartet cluster adopt` with this node's settings, while it does not run."""
        command = [binary(), "cluster", "adopt", "--dev", "--data", self.data, *self.options, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def end_cluster(self, *words: str) -> subprocess.CompletedProcess:
        """`quartet cluster end` with this node's settings, while it does not run."""
        return subprocess.run(self.end_words(*words), capture_output=True, text=True, timeout=60)

    def end_words(self, *words: str) -> list[str]:
        key = ["--dev"] if self.root_key is None else ["--root-key", self.root_key]
        return [*self.prefix, binary(), "cluster", "end", *key, "--data", self.data, *self.options, *words]

    def is_home(self) -> bool:
        try:
            return bool(self.ask("/healthz/home", timeout=2))
        except OSError:
            return False

    def metrics(self, timeout: float = 60) -> dict[str, float]:
        lines = (line.rsplit(" ", 1) for line in self.ask("/metrics", timeout=timeout).splitlines() if line.startswith("quartet_"))
        return {name: float(value) for name, value in lines}

    def hand_over(self) -> None:
        """Makes this node home without an unfinished write."""
        self.ask("/admin/v1/cluster/hand-over", {"to": self.name}, timeout=60)

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


class Cluster:
    """`machines`: one for each node, then one for each of the three members of etcd; whoever talks shows a certificate of `certificates`.
    `folders`: where the nodes keep their data, each in its own.

    A node that ends because it needs a copy is started again, as a supervisor does: one that was away for some seconds may do so.
    """

    def __init__(
        self,
        nodes: int = 3,
        options: Sequence[str] = (),
        etcd_options: Sequence[str] = (),
        machines: Sequence[Machine] = (),
        certificates: Certificates | None = None,
        folders: Sequence[str | None] = (),
    ):
        self.options = options
        if made := certificates:
            self.options = [*options, "--cluster-ca", made.root, "--cluster-certificate", made.certificate, "--cluster-key", made.key]
            self.options += ["--etcd-ca", made.root, "--etcd-certificate", made.certificate, "--etcd-key", made.key]
        self.etcd = Etcd(options=etcd_options, machines=machines[nodes:], certificates=certificates)
        places = zip(machines or [None] * nodes, folders or [None] * nodes)
        self.nodes = [Node(self, f"node-{number}", machine, data=folder) for number, (machine, folder) in enumerate(places)]
        # What `has_moved` has seen of each node, and until when clients may still lose a connection over it.
        self.seen: dict[str, tuple[float, float]] = {}
        self.excused_until = 0.0
        self.over = threading.Event()
        self.keeper = threading.Thread(target=self._keep_running, daemon=True)

    def __enter__(self) -> "Cluster":
        try:
            self.etcd.start()
            for node in self.nodes:
                node.start()
            self.keeper.start()
            self.home()
            self.has_moved()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def home(self) -> Node:
        """The node that is home, once one is."""
        deadline = time.monotonic() + HOME_SECONDS_MAX
        while time.monotonic() < deadline:
            for node in self.nodes:
                if node.alive() and node.is_home():
                    return node
            time.sleep(0.02)
        raise TimeoutError("no node is home:\n" + "\n".join("".join(node.output[-20:]) for node in self.nodes))

    def term(self) -> int:
        """The newest term that any node knows, of all partitions in sum."""
        return max([0, *(term for term, _ in self._figures().values())])

    def _figures(self) -> dict[str, tuple[float, float]]:
        """The term of each node that answers, of all partitions in sum, and how often etcd has left it without an answer."""
        found = {}
        for node in self.nodes:
            try:
                metrics = node.metrics(timeout=5)
            except OSError:
                continue
            wanted = ("quartet_term", "quartet_unknown_answers_total")
            found[node.name] = tuple(sum(value for name, value in metrics.items() if name.split("{")[0] == one) for one in wanted)
        return found

    def has_moved(self) -> bool:
        """Whether another term has begun since this was last asked, or etcd has left a node without an answer: then a home refuses
        writes for a while. What failed because there was no home came before the next term, so that is waited for."""
        deadline, before = time.monotonic() + TERM_SECONDS_MAX, self.seen
        newest = max([0, *(term for term, _ in before.values())])
        while True:
            found = self._figures()
            self.seen = before | found
            if any(term > newest or unanswered > before.get(name, (0, 0))[1] for name, (term, unanswered) in found.items()):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)

    def at_one_home(self, act):
        """Acts again if the home has moved meanwhile, or just before. On a loaded machine a home may be silent for a second, and one
        that is deposed closes its connections; a connection that closes without that is a fault."""
        while True:
            try:
                return act()
            except Exception:
                if time.monotonic() > self.excused_until:
                    if not self.has_moved():
                        raise
                    self.excused_until = time.monotonic() + FAREWELL_SECONDS_MAX
                time.sleep(0.1)

    def others(self) -> list[Node]:
        home = self.home()
        return [node for node in self.nodes if node is not home]

    def _keep_running(self) -> None:
        while not self.over.wait(0.05):
            for node in list(self.nodes):
                # The test hears of a node that does not start by what it waits for.
                with contextlib.suppress(RuntimeError):
                    node.start_for_a_copy()

    def close(self) -> None:
        self.over.set()
        for node in self.nodes:
            if node.alive():
                node.go_on()
            node.kill()
        if self.keeper.is_alive():
            self.keeper.join()
        for node in self.nodes:
            node.close()
        self.etcd.close()
