"""Counts that a run has found and documents quote: `docs/counts.txt`. `cargo xtask counts` writes them into the documents."""

from __future__ import annotations

import re

from harness.server import ROOT

FILE = ROOT / "docs" / "counts.txt"


def record(counts: dict[str, object]) -> None:
    """Writes new values of names that the file has; nothing else of it changes."""
    text = FILE.read_text()
    for name, value in counts.items():
        text, found = re.subn(rf"^{re.escape(name)} .*$", f"{name} {value}", text, flags=re.MULTILINE)
        if found != 1:
            raise KeyError(f"{FILE} has no {name}")
    FILE.write_text(text)
