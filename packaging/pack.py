#!/usr/bin/env python3
"""Packs a binary and the library beside it for npm and PyPI:

    packaging/pack.py --binary target/x86_64-unknown-linux-musl/dist/quartet --library target/dist/libfdb_c.so --out dist

Needs npm, pip and hatchling. Once for each platform; the package for npm that is the same for all is written each time, with the same bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from binaries import ROOT, Binary, same_platform, stripped, version

HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="quartet-pack-") as folder:
        binary, library = (stripped(Binary(path), Path(folder)) for path in (arguments.binary, arguments.library))
        same_platform(binary, library)
        npm(binary, library, Path(folder), out)
        wheel(binary, library, out)


def npm(binary: Binary, library: Binary, folder: Path, out: Path) -> None:
    common = folder / "quartet-server"
    shutil.copytree(HERE / "npm" / "quartet-server", common)
    manifest = json.loads((common / "package.json").read_text())
    manifest["version"] = version()
    manifest["optionalDependencies"] = dict.fromkeys(manifest["optionalDependencies"], version())
    npm_pack(common, manifest, out)

    name, limits = binary.npm_package()
    platform = folder / name
    (platform / "bin").mkdir(parents=True)
    (platform / "lib").mkdir()
    shutil.copy2(binary.path, platform / "bin" / "quartet")
    shutil.copy2(library.path, platform / "lib" / library.library_name())
    description = f"The binary of quartet-server for {binary.system} on {binary.processor}"
    npm_pack(platform, {"name": name, "version": version(), "description": description, "license": "Apache-2.0", **limits, "files": ["bin", "lib"]}, out)


def npm_pack(folder: Path, manifest: dict, out: Path) -> None:
    (folder / "package.json").write_text(json.dumps(manifest, indent=2) + "\n")
    shutil.copy2(ROOT / "LICENSE", folder)
    subprocess.run(["npm", "pack", "--silent", "--ignore-scripts", "--pack-destination", out], cwd=folder, check=True)


def wheel(binary: Binary, library: Binary, out: Path) -> None:
    """With the hatchling that is installed: an isolated build would fetch one each time."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "QUARTET_PACKAGE_BINARY": str(binary.path), "QUARTET_PACKAGE_LIBRARY": str(library.path)}
    subprocess.run([*command, "--wheel-dir", out, HERE / "pypi"], env=environment, check=True)


if __name__ == "__main__":
    main()
