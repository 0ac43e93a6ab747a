"""Makes the data directories of the format that the binary at hand writes: `python -m formats 1`."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import redis

from formats import contents
from harness.server import Server, binary

FIXTURES = Path(__file__).parent / "fixtures"
# Small files: a segment is written ahead with zeros up to its size.
OPTIONS = ["--log-segment-bytes", "65536"]


def run(*arguments: str) -> str:
    return subprocess.run([binary(), *arguments], capture_output=True, text=True, check=True).stdout


def reset_key(data: Path, *kind: str) -> str:
    """A new credential, as it is shown once."""
    return run("admin", "reset-key", "--data", str(data), *kind).strip().removeprefix("root key, shown this once: ")


def make(name: str, engine: str) -> None:
    folder = FIXTURES / f"{name}-{engine}"
    if folder.exists():
        raise SystemExit(f"{folder} is there: what was released is not made anew")
    data = folder / "data"
    data.mkdir(parents=True)
    server = Server(durability="always", data=str(data), options=["--engine", engine, *OPTIONS]).start()
    try:
        contents.write_first(server)
        shop = contents.make_database(server)
        redis.Redis(port=server.port).save()
        contents.write_then(server)
        found = contents.read(server, shop)
    finally:
        # The log's rest is to be read when the directory is opened.
        server.kill()
    for left in ("log-next", "LOCK", "fdb.cluster", "checkpoint.partial", "base.next"):
        (data / left).unlink(missing_ok=True)
    keys = {"root key": reset_key(data), "access key": reset_key(data, "--dynamodb")}
    # Zeros that were written ahead take room and mean nothing.
    newest = max(data.glob("log-0*"))
    records = newest.read_bytes().rstrip(b"\0")
    newest.write_bytes(records + bytes(-len(records) % 8))
    checked = run("check", "--data", str(data))
    state = next(line for line in checked.splitlines() if line.startswith("state"))
    kept = {"credentials of shop": shop, **keys, "state": state, "contents": found}
    (folder / "contents.json").write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=True) + "\n")
    print(folder, sum(file.stat().st_size for file in data.iterdir()), "bytes")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("name", help="the number of the format")
    chosen = arguments.parse_args()
    for kind in ("memory", "ssd"):
        make(chosen.name, kind)
