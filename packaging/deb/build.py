#!/usr/bin/env python3
"""Builds the Debian package of a binary: `packaging/deb/build.py --binary target/release/quartet --out dist`.

Needs dpkg-deb alone. A static binary depends on no library; another one depends on the C library that it was linked with.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from binaries import ROOT, Binary, version  # noqa: E402
from pack import stripped  # noqa: E402

CONTROL = """\
Package: quartet
Version: {version}
Architecture: {architecture}
Maintainer: The Quartet authors <quartet@localhost>
Installed-Size: {kilobytes}
Depends: {depends}
Section: database
Priority: optional
Description: durable database for clients of Redis, DynamoDB, FaunaDB and FoundationDB
 One strictly serializable, durable database that existing clients already know
 how to talk to. A write is on disk before it is acknowledged.
"""

FILES = [
    (HERE / "quartet.service", "lib/systemd/system/quartet.service", 0o644),
    (HERE / "quartet.toml", "etc/quartet/quartet.toml", 0o640),
    (ROOT / "README.md", "usr/share/doc/quartet/README.md", 0o644),
    (ROOT / "CHANGELOG.md", "usr/share/doc/quartet/CHANGELOG.md", 0o644),
    (ROOT / "LICENSE", "usr/share/doc/quartet/copyright", 0o644),
    *((HERE / name, f"DEBIAN/{name}", 0o755) for name in ("postinst", "prerm", "postrm")),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="quartet-deb-") as folder:
        binary = stripped(Binary(arguments.binary), Path(folder))
        tree = Path(folder) / "tree"
        for source, target, mode in [(binary.path, "usr/bin/quartet", 0o755), *FILES]:
            place(source, tree / target, mode)
        (tree / "DEBIAN" / "conffiles").write_text("/etc/quartet/quartet.toml\n")
        (tree / "DEBIAN" / "control").write_text(control(binary, tree))
        name = f"quartet_{version()}_{binary.debian_architecture()}.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zxz", "-z1", tree, arguments.out / name], check=True)


def place(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def control(binary: Binary, tree: Path) -> str:
    libraries = [] if binary.is_static else [f"libc6 (>= {platform.libc_ver()[1]})", "libgcc-s1"]
    return CONTROL.format(
        version=version(),
        architecture=binary.debian_architecture(),
        kilobytes=sum(file.stat().st_size for file in tree.rglob("*") if file.is_file()) // 1024,
        depends=", ".join(["passwd", *libraries]),
    )


if __name__ == "__main__":
    main()
