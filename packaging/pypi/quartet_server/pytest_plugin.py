"""The fixtures `quartet` and `quartet_session`; installing the package is enough to have them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import Quartet, start_quartet


@pytest.fixture
def quartet() -> Iterator[Quartet]:
    """An empty server for this test alone."""
    with start_quartet() as server:
        yield server


@pytest.fixture(scope="session")
def quartet_session() -> Iterator[Quartet]:
    """One server for all tests; what a test writes the next one finds."""
    with start_quartet() as server:
        yield server
