#!/usr/bin/env python3
"""Everything that a release publishes, from what was built before: `packaging/release.py --binary PATH... --library PATH... --out dist`.

One binary and one library for each platform; which one they are for is read from them. Writes into the folder:

    quartet-VERSION-SYSTEM-CPU.tar.gz   the binary, libfdb_c with its headers, manual pages, completions, the licence
    quartet_VERSION_ARCH.deb            for Linux
    quartet-server*.tgz, *.whl          for npm and PyPI
    quartet-VERSION.cdx.json            what it is made of (CycloneDX)
    quartet.rb                          the formula for Homebrew, with the checksums of the archives
    image/                              what packaging/docker/Dockerfile copies
    SHA256SUMS                          of all files above
"""

from __future__ import annotations

import argparse
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import sbom
from binaries import COMPLETIONS, HEADERS, ROOT, Binary, completions, manual_pages, runnable, version

HERE = Path(__file__).resolve().parent
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True, nargs="+")
    parser.add_argument("--library", type=Path, required=True, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--address", default="https://quartet.example/releases", help="where the archives will lie, for the formula")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    (out / "image" / "data").mkdir(parents=True)
    libraries = {(library.system, library.processor): library for library in map(Binary, arguments.library)}
    program = runnable(arguments.binary)
    for binary in map(Binary, arguments.binary):
        publish(binary, libraries[binary.system, binary.processor], program, out)
    (out / f"quartet-{version()}.cdx.json").write_text(sbom.of_the_workspace())
    (out / "quartet.rb").write_text(formula(arguments.address, out))
    files = sorted(file for file in out.iterdir() if file.is_file())
    (out / "SHA256SUMS").write_text("".join(f"{sha256(file)}  {file.name}\n" for file in files))


def publish(binary: Binary, library: Binary, program: Path, out: Path) -> None:
    packed = ["--binary", binary.path, "--library", library.path, "--out", out]
    subprocess.run([sys.executable, HERE / "pack.py", *packed], check=True)
    with tarfile.open(out / archive(binary.system, PROCESSORS[binary.processor]), "w:gz") as tar:
        tar.add(binary.path, "quartet")
        tar.add(library.path, library.library_name())
        for header in HEADERS:
            tar.add(header, f"foundationdb/{header.name}")
        tar.add(ROOT / "LICENSE", "LICENSE")
        for page, text in manual_pages(program).items():
            add_text(tar, f"man/{page}", text)
        for shell, text in completions(program).items():
            add_text(tar, f"completions/{COMPLETIONS[shell]}", text)
    if binary.system == "linux":
        described = ["--describe-with", program]
        subprocess.run([sys.executable, HERE / "deb" / "build.py", *packed, *described], check=True, stdout=subprocess.DEVNULL)
        if binary.is_static:
            place = out / "image" / binary.debian_architecture()
            place.mkdir()
            shutil.copy2(binary.path, place / "quartet")


def add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(text.encode()), 0o644
    tar.addfile(entry, io.BytesIO(text.encode()))


def archive(system: str, processor: str) -> str:
    return f"quartet-{version()}-{system}-{processor}.tar.gz"


def formula(address: str, out: Path) -> str:
    """The formula names the archives that are there; a platform without one is left out."""
    text = (HERE / "homebrew" / "quartet.rb").read_text().replace("VERSION", version()).replace("ADDRESS", address)

    def checksum(found: re.Match) -> str:
        file = out / archive(found[1], found[2])
        return sha256(file) if file.exists() else "0" * 64

    return re.sub(r"SHA256_OF_([a-z]+)_(\w+)", checksum, text)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
