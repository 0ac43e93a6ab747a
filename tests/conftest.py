import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from harness.fixtures import *  # noqa: E402,F401,F403
from harness.fixtures import _session_server  # noqa: E402,F401


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write observed outcomes into the golden scripts; then review the diff")
