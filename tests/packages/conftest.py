"""The packages as their users get them: packed once, then installed into places that know nothing of this checkout."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from harness.installed import run
from harness.server import ROOT, binary, library


@pytest.fixture(scope="session")
def dist(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    run([sys.executable, ROOT / "packaging" / "pack.py", "--binary", binary(), "--library", library(), "--out", out])
    return out


@pytest.fixture(scope="session")
def clean_python(dist, tmp_path_factory) -> Path:
    """The interpreter of an environment that has the wheel, installed without a look at any index."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--no-index", *dist.glob("*.whl")])
    return python


@pytest.fixture(scope="session")
def clean_node(dist, tmp_path_factory) -> Path:
    """A folder in which the packages of npm are installed, without a look at the registry."""
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"name": "application", "private": true}\n')
    run(["npm", "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *dist.glob("*.tgz")], cwd=folder)
    return folder
