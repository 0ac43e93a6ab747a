"""The image, as far as it goes without a container engine: its Dockerfile is read, and what it says is done in a root that has nothing else.

A binary that was linked to this machine's C library has that lent to it; the one of a release is static and needs nothing.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from harness.installed import run
from harness.server import ROOT, binary

DOCKERFILE = (ROOT / "packaging" / "docker" / "Dockerfile").read_text().replace("\\\n", " ")

LIFE = """
ip link set lo up
mount -t proc none {root}/proc
mount -t tmpfs none {root}/dev
mknod -m 666 {root}/dev/urandom c 1 9
mknod -m 666 {root}/dev/null c 1 3
for library in lib lib64 usr; do mkdir {root}/$library; mount --bind -o ro /$library {root}/$library; done
inside() {{ exec env -i {environment} "$(command -v chroot)" --userspec={user} {root} "$@"; }}
(inside {command}) >{root}.out 2>&1 & server=$!
until (inside {healthcheck}) 2>/dev/null; do kill -0 $server || {{ cat {root}.out; exit 1; }}; sleep 0.05; done
echo healthy
key=$(sed -n 's/^root key, shown this once: //p' {root}.out)
REDISCLI_AUTH=$key redis-cli SET greeting hello
stat -c '%u %a' {root}/data/fdb.cluster
kill $server; wait $server; echo "stopped $?"
"""


def said(instruction: str) -> list[str]:
    return re.findall(rf"^{instruction} +(.+)$", DOCKERFILE, re.MULTILINE)


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the root needs root")
def test_it_serves_as_nobody_in_particular_and_is_healthy(tmp_path):
    root = tmp_path / "root"
    (user,) = said("USER")
    owner = int(user.split(":")[0])
    for folder in ("proc", "dev", "data"):
        (root / folder).mkdir(parents=True)
    os.chown(root / "data", owner, owner)
    (root / "data").chmod(0o700)
    run(["cp", binary(), root / "quartet"])
    environment = " ".join(shlex.split(" ".join(said("ENV"))))
    command = json.loads(said("ENTRYPOINT")[0]) + json.loads(said("CMD")[0])
    healthcheck = json.loads(said("HEALTHCHECK")[0].split("CMD ")[1])
    script = LIFE.format(root=root, user=user, environment=environment, command=" ".join(command), healthcheck=" ".join(healthcheck))
    reachable(tmp_path)
    told = run(["unshare", "--net", "--mount", "bash", "-euc", script])
    assert told.splitlines() == ["healthy", "OK", f"{owner} 600", "stopped 0"]


def reachable(folder: Path) -> None:
    """pytest's folders are for their owner alone, and the server is somebody else."""
    while folder != folder.parent and folder.stat().st_uid == os.geteuid() and folder != Path("/tmp"):
        folder.chmod(folder.stat().st_mode | 0o011)
        folder = folder.parent
