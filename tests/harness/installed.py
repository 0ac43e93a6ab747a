"""Running what is installed outside of this checkout, and looking at processes that are not this one's children."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path

# The clients of the tests, lent to environments that have nothing but our package.
CLIENTS = f"{sysconfig.get_path('purelib')}:{Path(__file__).parent / 'offline'}"


def run(command: list, cwd: Path | None = None, **environment: str) -> str:
    """Its output; a failure shows it. QUARTET_BIN is taken away: the package's own binary must be found."""
    own = {name: value for name, value in os.environ.items() if name not in ("QUARTET_BIN", "PYTHONPATH")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**own, **environment}, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, f"{command[:4]} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.01)
