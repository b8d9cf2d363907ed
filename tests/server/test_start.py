"""`firstfault serve` says in a sentence why it cannot start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from firstfault.errors import UsageError
from firstfault.server.settings import load_settings
from firstfault.server.start import run


def test_an_address_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        given = {"port": other.getsockname()[1], "database_url": f"sqlite:///{tmp_path / 'x.db'}"}
        with pytest.raises(UsageError, match="cannot listen there"):
            run(load_settings(environment={}, given=given))


@pytest.mark.parametrize("url", ["mysql://localhost/x", "sqlite:////no/such/folder/x.db", "postgresql://127.0.0.1:1/x"])
def test_a_database_that_cannot_be_had(url: str) -> None:
    with pytest.raises(UsageError, match="database"):
        run(load_settings(environment={}, given={"database_url": url}))
