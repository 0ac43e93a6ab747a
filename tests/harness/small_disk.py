"""File systems of a test's own: one that is small, and one that loses power. Both need root and the right to mount.

`SmallDisk` is a tmpfs of a few megabytes; `fill` takes what is left of it.

`PowerDisk` is ext4 in a file behind a loop device. What a program has written and not synced is in the kernel's cache; the
file holds what has reached the disk, and the journal writes nothing by itself for ten minutes. `cut` stops the program,
copies the file, kills the program and goes on with the copy: what was not synced, directory operations included, is gone.
A copy takes a moment in which the program must not write, so the program is stopped first and then killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

MOUNT_OPTIONS = "noatime,commit=600"


def why_not() -> str | None:
    """Why there can be no such file systems here, or None."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for program in ("mount", "losetup", "mkfs.ext4"):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            return f"{program} is not installed"
    try:
        with PowerDisk(16), SmallDisk(1):
            return None
    except (OSError, subprocess.CalledProcessError) as problem:
        return f"mounting a file system is not permitted: {getattr(problem, 'stderr', '') or problem}"


def run(*command: str) -> str:
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


class Mounted:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="quartet-disk-"))
        self.path = self.folder / "mounted"
        self.path.mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self) -> None:
        if os.path.ismount(self.path):
            run("umount", str(self.path))
        shutil.rmtree(self.folder, ignore_errors=True)


class SmallDisk(Mounted):
    def __init__(self, megabytes: int):
        super().__init__()
        try:
            run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "quartet-test", str(self.path))
        except subprocess.CalledProcessError:
            self.close()
            raise

    def left(self) -> int:
        system = os.statvfs(self.path)
        return system.f_bavail * system.f_frsize

    def fill(self) -> Path:
        """A file that takes all that is left."""
        filling = self.path / f"filling-{time.monotonic_ns()}"
        with filling.open("wb") as file:
            if left := self.left():
                os.posix_fallocate(file.fileno(), 0, left)
        return filling


class PowerDisk(Mounted):
    def __init__(self, megabytes: int):
        super().__init__()
        self.image = self.folder / "image"
        with self.image.open("wb") as file:
            file.truncate(megabytes << 20)
        try:
            run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(self.image))
            self._mount()
        except subprocess.CalledProcessError:
            self.close()
            raise

    def _mount(self) -> None:
        run("mount", "-o", f"loop,{MOUNT_OPTIONS}", str(self.image), str(self.path))

    def hang(self) -> None:
        """From now on nothing that is written reaches the disk, and whoever waits for it waits, until `go_on`."""
        run("fsfreeze", "--freeze", str(self.path))

    def go_on(self) -> None:
        run("fsfreeze", "--unfreeze", str(self.path))

    def cut(self, process: subprocess.Popen) -> None:
        """Takes the power from the disk under `process`, which is gone afterwards. The disk is there again, as it was left."""
        stop(process)
        left = self.folder / "left"
        run("cp", "--sparse=always", str(self.image), str(left))
        process.kill()
        process.wait(60)
        run("umount", str(self.path))
        left.rename(self.image)
        self._mount()


def stop(process: subprocess.Popen) -> None:
    """Returns when no thread of the process runs any more, not even in the kernel."""
    os.kill(process.pid, 19)
    deadline = time.monotonic() + 60
    while any(state not in "TZ" for state in thread_states(process.pid)):
        if time.monotonic() > deadline:
            raise TimeoutError("the process did not stop")
        time.sleep(0.001)


def thread_states(pid: int) -> list[str]:
    states = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        except OSError:
            pass
    return states
