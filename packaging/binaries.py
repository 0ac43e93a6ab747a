"""What a binary or a library is for, read from the binary itself, so that no package can carry a name that its content does not keep.

ELF: "Executable and Linkable Format", figure 1-3 and chapter 2; Mach-O: Apple's `mach-o/loader.h`.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent

# FoundationDB's C interface, as the library has it.
HEADERS = sorted((ROOT / "crates" / "fdb-c" / "include" / "foundationdb").iterdir())

ELF_MACHINES = {62: "x86_64", 183: "aarch64"}
MACHO_PROCESSORS = {0x01000007: "x86_64", 0x0100000C: "aarch64"}
INTERPRETER_SEGMENT = 3


def version() -> str:
    """The version of everything, from the root manifest."""
    manifest = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE).group(1)


@dataclass
class Binary:
    """`system` is linux or darwin; `processor` x86_64 or aarch64; `is_static` means: needs no C library of its system."""

    path: Path

    def __post_init__(self):
        self.path = self.path.resolve()
        with self.path.open("rb") as file:
            head = file.read(4096)
        if head[:4] == b"\x7fELF":
            self.system = "linux"
            self.processor = ELF_MACHINES[struct.unpack_from("<H", head, 18)[0]]
            self.is_static = not has_interpreter(head)
        elif head[:4] == b"\xcf\xfa\xed\xfe":
            self.system = "darwin"
            self.processor = MACHO_PROCESSORS[struct.unpack_from("<I", head, 4)[0]]
            self.is_static = False
        else:
            raise ValueError(f"{self.path} is no binary for Linux or macOS")

    def library_name(self) -> str:
        """The name under which bindings of FoundationDB look for the library."""
        return {"linux": "libfdb_c.so", "darwin": "libfdb_c.dylib"}[self.system]

    def npm_package(self) -> tuple[str, dict]:
        """The name of the platform's package, and what its package.json says of the platform."""
        processor = {"x86_64": "x64", "aarch64": "arm64"}[self.processor]
        limits = {"os": [self.system], "cpu": [processor]}
        if self.system == "linux" and not self.is_static:
            limits["libc"] = ["glibc"]
        return f"quartet-server-{self.system}-{processor}", limits

    def wheel_platform(self) -> str:
        """A static binary runs with any C library; one that is linked to this machine's is for machines like it."""
        if self.system == "darwin":
            return {"x86_64": "macosx_10_12_x86_64", "aarch64": "macosx_11_0_arm64"}[self.processor]
        if self.is_static:
            return f"manylinux_2_17_{self.processor}.manylinux2014_{self.processor}.musllinux_1_1_{self.processor}"
        return f"linux_{self.processor}"

    def debian_architecture(self) -> str:
        return {"x86_64": "amd64", "aarch64": "arm64"}[self.processor]


def same_platform(binary: Binary, library: Binary) -> None:
    if (binary.system, binary.processor) != (library.system, library.processor):
        raise ValueError(f"{library.path} is for {library.system} on {library.processor}, {binary.path} is not")


COMPLETIONS = {"bash": "quartet", "zsh": "_quartet", "fish": "quartet.fish"}


def runnable(binaries: list[Path]) -> Path:
    """The first that this machine runs; its pages and completions are those of each."""
    for binary in binaries:
        try:
            subprocess.run([binary.resolve(), "--version"], check=True, capture_output=True)
            return binary.resolve()
        except (OSError, subprocess.CalledProcessError):
            pass
    raise ValueError("this machine runs none of the binaries: --describe-with names one that it does")


def completions(program: Path) -> dict[str, str]:
    """By shell, as the program prints them."""
    return {shell: printed(program, "completions", shell) for shell in COMPLETIONS}


def manual_pages(program: Path) -> dict[str, str]:
    """By name: of the program, and of each of its commands."""
    commands = re.findall(r"^\\fBquartet\\-([\w-]+)\(1\)|^quartet\\-([\w-]+)\(1\)", printed(program, "manual"), re.MULTILINE)
    names = [first or second for first, second in commands if (first or second) != "help"]
    pages = {f"quartet-{name}.1": printed(program, "manual", name) for name in names}
    return {"quartet.1": printed(program, "manual") + (HERE / "deb" / "files.man").read_text(), **pages}


def printed(program: Path, *words: str) -> str:
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def stripped(binary: Binary, folder: Path) -> Binary:
    """A copy without symbols, where this machine's `strip` knows the format."""
    copy = folder / binary.path.name
    if subprocess.run(["strip", "--strip-unneeded", "-o", copy, binary.path], stderr=subprocess.DEVNULL).returncode != 0:
        shutil.copy2(binary.path, copy)
    copy.chmod(0o755)
    return Binary(copy)


def has_interpreter(head: bytes) -> bool:
    offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    kinds = (struct.unpack_from("<I", head, offset + index * size)[0] for index in range(count))
    return INTERPRETER_SEGMENT in kinds
