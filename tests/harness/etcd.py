"""Members of etcd on loopback or on machines of a test, in a folder of their own (Debian: etcd-server; QUARTET_ETCD names another program)."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.certificates import Certificates
from harness.network import Machine
from harness.server import free_port

LEADER_SECONDS_MAX = 60.0


class Etcd:
    """`options` go to the command line of each member as they are. `machines`: one for each member, which then speaks TLS with `certificates`."""

    def __init__(
        self,
        members: int = 3,
        options: Sequence[str] = (),
        machines: Sequence[Machine] = (),
        certificates: Certificates | None = None,
    ):
        self.options = options
        self.folder = Path(tempfile.mkdtemp(prefix="quartet-etcd-"))
        self.machines = machines
        self.certificates = certificates
        self.names = [f"member-{number}" for number in range(members)]
        if machines:
            self.clients = [f"{machine.address}:2379" for machine in machines]
            self.peers = [f"{machine.address}:2380" for machine in machines]
        else:
            self.clients = [f"127.0.0.1:{free_port()}" for _ in range(members)]
            self.peers = [f"127.0.0.1:{free_port()}" for _ in range(members)]
        self.processes: list[subprocess.Popen | None] = [None] * members
        self.context = None
        if certificates:
            self.context = ssl.create_default_context(cafile=str(certificates.root))
            self.context.load_cert_chain(certificates.certificate, certificates.key)

    @property
    def endpoints(self) -> str:
        return ",".join(self.clients)

    @property
    def scheme(self) -> str:
        return "https" if self.certificates else "http"

    @property
    def initial_cluster(self) -> str:
        return ",".join(f"{name}={self.scheme}://{peer}" for name, peer in zip(self.names, self.peers))

    def log(self, root: str = "test") -> str:
        return f"etcd://{self.endpoints}/{root}"

    def start(self) -> "Etcd":
        for member in range(len(self.clients)):
            self.run(member)
        self.leader()
        return self

    def run(self, member: int, joins: bool = False) -> None:
        """`joins`: it is a new member of a cluster that is there."""
        client, peer = (f"{self.scheme}://{addresses[member]}" for addresses in (self.clients, self.peers))
        command = [*self.machines[member].prefix] if self.machines else []
        command += [os.environ.get("QUARTET_ETCD", "etcd"), f"--name={self.names[member]}", f"--data-dir={self.data(member)}"]
        command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
        command += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={self.initial_cluster}", "--log-level=error", *self.options]
        command += ["--initial-cluster-state=existing"] if joins else []
        if made := self.certificates:
            command += [f"--cert-file={made.certificate}", f"--key-file={made.key}", f"--trusted-ca-file={made.root}", "--client-cert-auth"]
            command += [f"--peer-cert-file={made.certificate}", f"--peer-key-file={made.key}", f"--peer-trusted-ca-file={made.root}"]
            command += ["--peer-client-cert-auth"]
        with open(self.folder / f"log-{member}", "ab") as log:
            self.processes[member] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def data(self, member: int) -> Path:
        return self.folder / self.names[member]

    def kill(self, member: int) -> None:
        process, self.processes[member] = self.processes[member], None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def pause(self, member: int) -> None:
        os.kill(self.processes[member].pid, signal.SIGSTOP)

    def go_on(self, member: int) -> None:
        os.kill(self.processes[member].pid, signal.SIGCONT)

    def stop(self) -> None:
        for member in range(len(self.processes)):
            self.kill(member)

    def lose(self) -> None:
        """All members end, and nothing of what they had is left."""
        self.stop()
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def backed_up(self) -> Path:
        """A copy of all members' files, taken while none runs."""
        copy = Path(tempfile.mkdtemp(prefix="quartet-etcd-backup-"))
        shutil.copytree(self.folder, copy, dirs_exist_ok=True)
        return copy

    def go_back_to(self, copy: Path) -> None:
        """All members go back to what `copy` has."""
        self.lose()
        shutil.copytree(copy, self.folder, dirs_exist_ok=True)
        shutil.rmtree(copy)

    def leader(self, other_than: int | None = None) -> int:
        """The member that leads, once one does."""
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while time.monotonic() < deadline:
            for member, process in enumerate(self.processes):
                if process is not None and member != other_than and self._leads(member):
                    return member
            time.sleep(0.05)
        raise TimeoutError(f"no leader; see {self.folder}")

    def ask(self, member: int, path: str, seconds: float = 1, **body) -> dict:
        """OSError or ValueError: it has not answered."""
        url = f"{self.scheme}://{self.clients[member]}/v3/{path}"
        request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")
        try:
            return json.load(urllib.request.urlopen(request, timeout=seconds, context=self.context))
        except http.client.HTTPException as broken:
            raise OSError(f"{self.names[member]} broke off") from broken

    def _leads(self, member: int) -> bool:
        try:
            status = self.ask(member, "maintenance/status")
        except (OSError, ValueError):
            return False
        return status.get("leader") == status["header"]["member_id"]

    def compact(self, member: int) -> int:
        """Drops all history as of now, as anybody may who has access. The revision below which it is gone."""
        revision = int(self.ask(member, "kv/range", key=base64.b64encode(b"\0").decode())["header"]["revision"])
        self.ask(member, "kv/compaction", revision=revision)
        return revision

    def replace(self, member: int, by_way_of: int) -> None:
        """Removes a member whose disk is lost; another takes its place with an empty one."""
        self.kill(member)
        shutil.rmtree(self.data(member))
        lost, peer = self.names[member], f"{self.scheme}://{self.peers[member]}"
        self.names[member] += "-again"

        def remove_or_add() -> bool:
            """A request without an answer may have done it."""
            members = self.ask(by_way_of, "cluster/member/list")["members"]
            if gone := [one["ID"] for one in members if one.get("name") == lost]:
                self.ask(by_way_of, "cluster/member/remove", ID=gone[0])
                return False
            if not any(peer in one["peerURLs"] for one in members):
                self.ask(by_way_of, "cluster/member/add", peerURLs=[peer])
                return False
            return True

        self._insist(remove_or_add)
        self.run(member, joins=True)

    def _insist(self, act: Callable[[], bool]) -> None:
        """Until it is done: a member that has just lost its leader, or is slow, refuses or is silent."""
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
                if act():
                    return
            time.sleep(0.1)
        raise TimeoutError(f"etcd does not do what it is asked for; see {self.folder}")

    def answers(self, member: int) -> bool:
        """True if the member has everything that was decided before, and can show it."""
        try:
            self.ask(member, "kv/range", key=base64.b64encode(b"\0").decode())
        except (OSError, ValueError):
            return False
        return True

    def save(self, member: int, file: Path) -> None:
        """Writes a snapshot of everything to a file."""

        def save() -> bool:
            self._etcdctl(["snapshot", "save", str(file)], member)
            return True

        self._insist(save)

    def restore(self, file: Path) -> None:
        """All members begin with a snapshot's content. What they had is kept for `put_back`."""
        for member in range(len(self.clients)):
            self.kill(member)
            self.data(member).rename(self._aside(member))
            peer = f"{self.scheme}://{self.peers[member]}"
            words = ["snapshot", "restore", str(file), f"--name={self.names[member]}", f"--data-dir={self.data(member)}"]
            words += [f"--initial-cluster={self.initial_cluster}", f"--initial-advertise-peer-urls={peer}"]
            # Debian's etcdctl writes what only its own version reads.
            beside = Path(os.environ.get("QUARTET_ETCD", "")).with_name("etcdutl") if os.environ.get("QUARTET_ETCD") else None
            program = str(beside) if beside and beside.exists() else "etcdctl"
            command = [program, *words, "--initial-cluster-token=restored"]
            subprocess.run(command, env={**os.environ, "ETCDCTL_API": "3"}, check=True, capture_output=True, timeout=60)
        for member in range(len(self.clients)):
            self.run(member)
        self.leader()

    def put_back(self) -> None:
        """All members go on from what they had before `restore`."""
        for member in range(len(self.clients)):
            self.kill(member)
            shutil.rmtree(self.data(member))
            self._aside(member).rename(self.data(member))
        for member in range(len(self.clients)):
            self.run(member)
        self.leader()

    def _aside(self, member: int) -> Path:
        return self.folder / f"{self.names[member]}-aside"

    def _etcdctl(self, words: list[str], member: int | None = None) -> None:
        command = ["etcdctl", *words]
        if member is not None:
            command.append(f"--endpoints={self.scheme}://{self.clients[member]}")
        if made := self.certificates:
            command += [f"--cacert={made.root}", f"--cert={made.certificate}", f"--key={made.key}"]
        subprocess.run(command, env={**os.environ, "ETCDCTL_API": "3"}, check=True, capture_output=True, timeout=60)

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
