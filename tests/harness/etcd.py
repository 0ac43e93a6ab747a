"""Three members of etcd on loopback, in a folder of their own (Debian: etcd-server; QUARTET_ETCD names another program)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from harness.server import free_port

LEADER_SECONDS_MAX = 60.0


class Etcd:
    def __init__(self, members: int = 3):
        self.folder = Path(tempfile.mkdtemp(prefix="quartet-etcd-"))
        self.clients = [free_port() for _ in range(members)]
        self.peers = [free_port() for _ in range(members)]
        self.processes: list[subprocess.Popen | None] = [None] * members

    @property
    def endpoints(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.clients)

    def log(self, root: str = "test") -> str:
        return f"etcd://{self.endpoints}/{root}"

    def start(self) -> "Etcd":
        for member in range(len(self.clients)):
            self.run(member)
        self.leader()
        return self

    def run(self, member: int) -> None:
        cluster = ",".join(f"member-{number}=http://127.0.0.1:{port}" for number, port in enumerate(self.peers))
        client, peer = (f"http://127.0.0.1:{ports[member]}" for ports in (self.clients, self.peers))
        command = [os.environ.get("QUARTET_ETCD", "etcd"), f"--name=member-{member}", f"--data-dir={self.folder}/member-{member}"]
        command += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}", f"--listen-peer-urls={peer}"]
        command += [f"--initial-advertise-peer-urls={peer}", f"--initial-cluster={cluster}", "--log-level=error"]
        with open(self.folder / f"log-{member}", "ab") as log:
            self.processes[member] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self, member: int) -> None:
        process, self.processes[member] = self.processes[member], None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait()

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

    def restore(self, copy: Path) -> None:
        """All members go back to what `copy` has."""
        self.lose()
        shutil.copytree(copy, self.folder, dirs_exist_ok=True)
        shutil.rmtree(copy)

    def leader(self) -> int:
        """The member that leads, once one does."""
        deadline = time.monotonic() + LEADER_SECONDS_MAX
        while time.monotonic() < deadline:
            for member, process in enumerate(self.processes):
                if process is not None and self._leads(member):
                    return member
            time.sleep(0.05)
        raise TimeoutError(f"no leader; see {self.folder}")

    def _leads(self, member: int) -> bool:
        request = urllib.request.Request(f"http://127.0.0.1:{self.clients[member]}/v3/maintenance/status", data=b"{}", method="POST")
        try:
            status = json.load(urllib.request.urlopen(request, timeout=1))
        except (OSError, ValueError):
            return False
        return status["leader"] == status["header"]["member_id"]

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
