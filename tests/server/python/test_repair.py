"""`quartet check --repair`: of a damaged checkpoint or a damaged tree it drops what cannot be trusted, and nothing else."""

import codecs
import os
import re
import shutil
import subprocess
from pathlib import Path

import formats
import pytest
import redis
from formats import dissect
from harness.server import Server, binary

pytestmark = pytest.mark.quartet_only

FIXTURES = Path(formats.__file__).parent / "fixtures"
LAYERS = {"system": 0, "redis": 1, "fauna": 2, "dynamodb": 3, "keyvalue": 4}
KEY = r'database (\d+), (\w+), "(.*?)" \(\d+ bytes\)'


def check(data, *options):
    return subprocess.run([binary(), "check", "--data", str(data), *options], capture_output=True, text=True, timeout=120)


def rows(data, work) -> dict[bytes, bytes]:
    """All rows of a directory, by what the page about formats says of checkpoints."""
    shutil.copytree(data, work)
    if (work / "base").exists():
        subprocess.run([binary(), "convert", "--data", str(work), "--to", "memory"], check=True, capture_output=True, timeout=120)
    return dissect.rows(work)


def key(found) -> bytes:
    database, layer, escaped = found
    return int(database).to_bytes(2, "big") + bytes([LAYERS[layer]]) + codecs.escape_decode(escaped)[0]


class Report:
    """What a repair says that it has done, as intervals of keys."""

    def __init__(self, data):
        self.text = "".join(path.read_text() for path in data.glob("repair-*.txt"))
        self.dropped, self.written, space = [], set(), b""
        for line in self.text.splitlines():
            if found := re.match(r"database (\d+), (\w+): ", line):
                space = key((*found.groups(), ""))
            elif line.startswith("  dropped: "):
                bounds = [space + codecs.escape_decode(text)[0] for text in re.findall(r'"(.*?)" \(\d+ bytes\)', line)]
                is_range = re.match(r"  dropped: \d+ rows from ", line)
                self.dropped.append((bounds[0], bounds[1] if is_range else bounds[0] + b"\0"))
            elif line.startswith("  written: "):
                self.written.add(space + codecs.escape_decode(re.search(r'"(.*?)" \(', line)[1])[0])
            elif line.startswith("dropped: ") and " bytes of log-" not in line:
                bounds = [key(found) for found in re.findall(KEY, line)]
                if " from the key " in line:
                    bounds.insert(0, b"")
                start = bounds[0]
                end = bounds[1] if len(bounds) == 2 else b"\xff" * 8 if "up to the end" in line or "before the key" in line else start + b"\0"
                self.dropped.append((start, end))

    def covers(self, row: bytes) -> bool:
        return any(start <= row < end for start, end in self.dropped)


def state(checked) -> str:
    return re.search("^state .*", checked.stdout, re.M)[0]


def damage(path: Path, at: int, count: int) -> None:
    content = bytearray(path.read_bytes())
    for offset in range(at, min(at + count, len(content))):
        content[offset] ^= 0x5A
    path.write_bytes(content)


@pytest.mark.parametrize("engine", ["memory", "ssd"])
def test_rows_not_reported_as_dropped_are_there_and_right(tmp_path, engine):
    original = FIXTURES / f"1-{engine}" / "data"
    before = rows(original, tmp_path / "before")
    damaged_name = next(path.name for path in original.iterdir() if re.match(r"checkpoint-|base-", path.name))
    length = (original / damaged_name).stat().st_size
    dropped = 0
    for trial, at in enumerate(range(40, length, length // 5)):
        data = tmp_path / f"damaged-{trial}"
        shutil.copytree(original, data)
        damage(data / damaged_name, at, 3)
        bytes_of_damaged = (data / damaged_name).read_bytes()
        found = check(data)
        assert found.returncode == 1 and "--repair" in found.stdout, found.stdout + found.stderr
        foreseen = check(data, "--repair")
        assert foreseen.returncode == 1 and "nothing was changed" in foreseen.stdout and "kept: " in foreseen.stdout
        assert (data / damaged_name).read_bytes() == bytes_of_damaged
        repaired = check(data, "--repair", "--yes")
        report = Report(data)
        decided = "a person has to decide" in repaired.stdout
        assert repaired.returncode == (1 if decided else 0), repaired.stdout + repaired.stderr + report.text
        assert any(path.read_bytes() == bytes_of_damaged for path in data.glob(f"dropped-*-{damaged_name}-from-0"))
        assert not (data / "repairing").exists()
        after = rows(data, tmp_path / f"after-{trial}")
        for name, value in before.items():
            assert after.get(name) == value or report.covers(name) or name in report.written, (name, report.text)
        assert set(after) <= set(before) | report.written
        dropped += len(before) - len(after)
        again = check(data)
        assert again.returncode == repaired.returncode and state(again) == state(repaired), again.stdout
        Server(data=str(data)).start().stop()
    assert dropped > 0


def test_a_turned_bit_of_the_tree_is_turned_back(tmp_path):
    original = FIXTURES / "1-ssd" / "data"
    data = tmp_path / "data"
    shutil.copytree(original, data)
    sound = state(check(data))
    content = bytearray((data / "base").read_bytes())
    content[21] ^= 4
    (data / "base").write_bytes(content)
    assert check(data).returncode == 1
    repaired = check(data, "--repair", "--yes")
    assert repaired.returncode == 0 and state(repaired) == sound, repaired.stdout
    assert "mended: one bit of base at byte 21" in Report(data).text


def test_a_damaged_root_of_the_tree_has_a_copy(tmp_path):
    data = tmp_path / "data"
    shutil.copytree(FIXTURES / "1-ssd" / "data", data)
    sound = state(check(data))
    damage(data / "base", 20, 30)
    assert check(data).returncode == 1
    repaired = check(data, "--repair", "--yes")
    assert repaired.returncode == 0 and state(repaired) == sound, repaired.stdout
    assert "mended: base, from base.copy" in Report(data).text
    assert (data / "base").read_bytes() == (data / "base.copy").read_bytes()
    server = Server(data=str(data)).start()
    try:
        assert redis.Redis(port=server.port).llen("large list") == 190
    finally:
        server.close()


def test_without_a_root_nothing_is_changed(tmp_path):
    original = FIXTURES / "1-ssd" / "data"
    data = tmp_path / "data"
    shutil.copytree(original, data)
    (data / "base.copy").unlink()
    damage(data / "base", 20, 8)
    files = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "LOCK"}
    repaired = check(data, "--repair", "--yes")
    assert repaired.returncode == 1 and "only a backup can replace it" in repaired.stdout
    after = {path.name: path.read_bytes() for path in data.iterdir() if path.name != "LOCK" and not path.name.startswith("repair-")}
    assert after == files
    assert os.listdir(data)
