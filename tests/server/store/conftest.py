"""Every test of the store meets SQLite and a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from firstfault.server.store.store import Store, open_store
from server.databases import database_url, postgresql

__all__ = ["database_url", "postgresql", "store"]


@pytest.fixture
def store(database_url: str) -> Iterator[Store]:
    opened = open_store(database_url)
    yield opened
    opened.close()
