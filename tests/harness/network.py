"""Machines of a test's own: network namespaces on one bridge, which can be cut off from each other in one direction or both.

The process that makes them has to be alone in namespaces of its own (`alone`): then nothing of a run outlives it, however it ends. It is on
the bridge itself, and reaches every machine whatever is cut.

A cut drops packets where they would arrive, so the sender sees what it sees of a broken network: silence.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

BRIDGE = "machines"
# The addresses are private to the namespaces, so every run has the same.
SUBNET = "10.77.0"
FOLDERS = "quartet-machines-"
INSIDE = "QUARTET_TEST_NAMESPACES"
LEAVE_OUT = "QUARTET_TEST_WITHOUT_NAMESPACES"
STARTED_SECONDS_MAX = 60.0
PROGRAMS = {"unshare": "util-linux", "nsenter": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "iptables": "iptables"}


def run(*command: str) -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def alone(module: str) -> None:
    """Goes on in namespaces of its own: of networks, of processes, which end with this one, and of mounts.

    Where the machine does not permit that, the test fails and says what is missing; with `LEAVE_OUT` in the environment it ends as if
    nothing had been asked of it.
    """
    if os.environ.get(INSIDE):
        return
    missing = why_not()
    if missing and os.environ.get(LEAVE_OUT):
        print(f"left out, as {LEAVE_OUT} says: {missing}")
        sys.exit(0)
    if missing:
        sys.exit(f"machines of a test's own are not possible here: {missing}; {LEAVE_OUT}=1 leaves the tests out that need them")
    # `unshare` minds no signal while it waits, so it has to be killed with this process; it kills what is inside.
    command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command += [sys.executable, "-m", module, *sys.argv[1:]]
    sys.exit(subprocess.run(command, env={**os.environ, INSIDE: "1"}).returncode)


def why_not() -> str | None:
    """The capability that this machine lacks, or None."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{program} is not installed (Debian: {package})"
    tries = {
        "namespaces of networks, processes and mounts (CAP_SYS_ADMIN)": "true",
        "a bridge (kernel: CONFIG_BRIDGE)": "ip link add bridge0 type bridge",
        "pairs of devices (kernel: CONFIG_VETH)": "ip link add veth0 type veth peer name veth1",
        "rules that drop packets (kernel: CONFIG_NF_TABLES or CONFIG_IP_NF_FILTER)": "iptables -w -A INPUT -s 10.0.0.1 -j DROP",
    }
    for needed, script in tries.items():
        try:
            run("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script)
        except OSError as problem:
            return f"{needed}: {problem}"
    return None


@contextlib.contextmanager
def own_folder():
    """Where everything goes that this process makes, temporary files too. Also removes what earlier ones left that were killed."""
    for old in Path(tempfile.gettempdir()).glob(f"{FOLDERS}*"):
        with contextlib.suppress(OSError), locked(old):
            shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix=FOLDERS) as folder, locked(Path(folder)):
        tempfile.tempdir = folder
        yield Path(folder)


@contextlib.contextmanager
def locked(folder: Path):
    """OSError: another process has it."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(place)


class Network:
    """The bridge, and what is cut."""

    def __init__(self):
        self.machines: list[Machine] = []
        self.cut_at: set[Machine] = set()
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{SUBNET}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")

    def machine(self, name: str) -> "Machine":
        self.machines.append(Machine(name, len(self.machines) + 2))
        return self.machines[-1]

    def cut(self, pairs: Sequence[tuple["Machine", "Machine"]]) -> None:
        """Nothing that the first of a pair sends arrives at the second."""
        for receiver in {receiver for _, receiver in pairs}:
            senders = ",".join(sender.address for sender, other in pairs if other is receiver)
            self.cut_at.add(receiver)
            receiver.inside("iptables", "-w", "-A", "INPUT", "-s", senders, "-j", "DROP")

    def dropped(self) -> int:
        """Packets that cuts have dropped since they were made."""
        listed = (machine.inside("iptables", "-w", "-nvxL", "INPUT") for machine in self.cut_at)
        return sum(int(count) for text in listed for count in re.findall(r"^\s*(\d+)\s+\d+\s+DROP", text, re.MULTILINE))

    def heal(self) -> None:
        for machine in self.cut_at:
            machine.inside("iptables", "-w", "-F", "INPUT")
        self.cut_at.clear()

    def close(self) -> None:
        for machine in self.machines:
            machine.close()


class Machine:
    """A namespace with one address, which lives as long as a process in it does nothing."""

    def __init__(self, name: str, number: int):
        self.name, self.address = name, f"{SUBNET}.{number}"
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.namespace = f"/proc/{self.process.pid}/ns/net"
        deadline = time.monotonic() + STARTED_SECONDS_MAX
        while os.readlink(self.namespace) == os.readlink("/proc/self/ns/net"):
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise OSError(f"{name} has no namespace")
            time.sleep(0.002)
        port = f"port-{number}"
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        run("ip", "link", "set", port, "master", BRIDGE, "up")
        self.inside("sh", "-c", f"ip link set lo up && ip address add {self.address}/24 dev eth0 && ip link set eth0 up")

    @property
    def prefix(self) -> list[str]:
        """Words that run a command on this machine, as the process that they start."""
        return ["nsenter", f"--net={self.namespace}", "--"]

    def inside(self, *command: str) -> str:
        return run(*self.prefix, *command)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
