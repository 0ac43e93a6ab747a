"""`quartet bench search` and `vectors` against a server of their own: the cells, totals that are right, and recall."""

from __future__ import annotations

import json
import subprocess

import pytest
from harness.server import binary

pytestmark = [pytest.mark.quartet_only, pytest.mark.timeout(300)]


def run(benchmark: str, folder, *options: str) -> list[dict]:
    command = [binary(), "bench", benchmark, "--seconds", "1", "--parallelism", "1,3", "--report", str(folder), *options]
    subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
    page = (folder / f"{benchmark}.html").read_text()
    assert "published" not in page.split("</style>")[1]
    cells = json.loads((folder / f"{benchmark}.json").read_text())["cells"]
    assert all(cell["requests"] > 0 and cell["errors"] == 0 for cell in cells), cells
    return cells


def test_search_finds_the_totals_that_documents_have(tmp_path):
    cells = run("search", tmp_path, "--documents", "700")
    assert [(cell["test"], cell["parallelism"]) for cell in cells] == [
        (test, parallelism) for test in ("ingest", "tag", "number", "word") for parallelism in (1, 3)
    ]
    assert not any("recall" in cell for cell in cells)


def test_vectors_have_a_recall_where_they_are_looked_for(tmp_path):
    cells = run("vectors", tmp_path, "--vectors", "500", "--dimensions", "16", "--candidates", "200")
    recalls = {cell["test"]: cell.get("recall") for cell in cells}
    assert recalls["hset"] is None and recalls["vadd"] is None
    # A hundred queries, each with ten: of an index nearly all, of a set as far as eight bits a component tell.
    assert recalls["knn"] > 0.95 and recalls["vsim"] > 0.8, recalls
