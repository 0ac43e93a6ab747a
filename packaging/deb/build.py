#!/usr/bin/env python3
"""Builds the Debian package: `packaging/deb/build.py --binary target/dist/quartet --library target/dist/libfdb_c.so --out dist`.

Needs dpkg-deb alone. A static binary depends on no library; another one depends on the C library that it was linked with.
Programs that load libfdb_c.so have a C library anyway, so it is in a folder of its own and the package does not depend on one
for it; FoundationDB's own library, where there is one, stays where it is.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from email.utils import format_datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from binaries import HEADERS, ROOT, Binary, completions, manual_pages, runnable, same_platform, stripped, version  # noqa: E402

MAINTAINER = "The Quartet authors <quartet@quartet.example>"
CONTROL = """\
Package: quartet
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Installed-Size: {kilobytes}
Depends: {depends}
Section: database
Priority: optional
Description: durable database for clients of Redis, DynamoDB, FaunaDB and FoundationDB
 One strictly serializable, durable database that existing clients already know
 how to talk to. A write is on disk before it is acknowledged.
"""

# The form that Debian's tools read; what changed is in the project's own file.
CHANGELOG = """\
quartet ({version}) unstable; urgency=medium

  * /usr/share/doc/quartet/CHANGELOG.md says what changed.

 -- {maintainer}  {date}
"""

# Where each shell of Debian looks.
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/quartet",
    "zsh": "usr/share/zsh/vendor-completions/_quartet",
    "fish": "usr/share/fish/vendor_completions.d/quartet.fish",
}

FILES = [
    *((HERE / name, f"lib/systemd/system/{name}", 0o644) for name in ("quartet.service", "quartet-backup.service", "quartet-backup.timer")),
    (HERE / "quartet.toml", "etc/quartet/quartet.toml", 0o644),
    (ROOT / "README.md", "usr/share/doc/quartet/README.md", 0o644),
    (ROOT / "CHANGELOG.md", "usr/share/doc/quartet/CHANGELOG.md", 0o644),
    (HERE / "copyright", "usr/share/doc/quartet/copyright", 0o644),
    *((header, f"usr/include/quartet/foundationdb/{header.name}", 0o644) for header in HEADERS),
    *((HERE / name, f"DEBIAN/{name}", 0o755) for name in ("postinst", "prerm", "postrm")),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--describe-with", type=Path, help="a build for this machine, that prints pages and completions, if it does not run the binary")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    with tempfile.TemporaryDirectory(prefix="quartet-deb-") as folder:
        binary, library = (stripped(Binary(path), Path(folder)) for path in (arguments.binary, arguments.library))
        same_platform(binary, library)
        tree = Path(folder) / "tree"
        programs = [(binary.path, "usr/bin/quartet", 0o755), (library.path, "usr/lib/quartet/libfdb_c.so", 0o644)]
        for source, target, mode in [*programs, *FILES]:
            place(source, tree / target, mode)
        program = runnable([arguments.describe_with or arguments.binary])
        for page, text in manual_pages(program).items():
            compressed(tree / f"usr/share/man/man1/{page}.gz", text)
        for shell, text in completions(program).items():
            written(tree / COMPLETIONS[shell], text)
        compressed(tree / "usr/share/doc/quartet/changelog.gz", CHANGELOG.format(version=version(), maintainer=MAINTAINER, date=date()))
        (tree / "DEBIAN" / "conffiles").write_text("/etc/quartet/quartet.toml\n")
        (tree / "DEBIAN" / "control").write_text(control(binary, tree))
        name = f"quartet_{version()}_{binary.debian_architecture()}.deb"
        subprocess.run(["dpkg-deb", "--build", "--root-owner-group", "-Zxz", "-z1", tree, arguments.out / name], check=True)


def place(source: Path, target: Path, mode: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(mode)


def written(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(0o644)


def compressed(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(gzip.compress(text.encode(), mtime=0))


def date() -> str:
    """The day of the build, or SOURCE_DATE_EPOCH for one that gives the same bytes again."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", datetime.now(timezone.utc).timestamp()))
    return format_datetime(datetime.fromtimestamp(seconds, timezone.utc))


def control(binary: Binary, tree: Path) -> str:
    libraries = [] if binary.is_static else [f"libc6 (>= {platform.libc_ver()[1]})", "libgcc-s1"]
    return CONTROL.format(
        version=version(),
        maintainer=MAINTAINER,
        architecture=binary.debian_architecture(),
        kilobytes=sum(file.stat().st_size for file in tree.rglob("*") if file.is_file()) // 1024,
        depends=", ".join(["passwd", *libraries]),
    )


if __name__ == "__main__":
    main()
