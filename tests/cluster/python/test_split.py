"""Networks that are split between two nodes, on machines of a test's own."""

import os
import subprocess
import sys

import pytest
from harness import network

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]


def test_homes_that_do_not_reach_each_other():
    if os.environ.get(network.LEAVE_OUT):
        pytest.skip(f"left out, as {network.LEAVE_OUT} says")
    done = subprocess.run([sys.executable, "-m", "cluster.split"], capture_output=True, text=True, timeout=240)
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-5_000:]
