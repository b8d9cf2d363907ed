"""A real PostgreSQL for the tests, started once; where Debian's package is missing, its tests are skipped and say so."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

USER = "postgres"
_NEEDS = "needs Debian's postgresql (apt-get install postgresql)"


def _programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


def _as_user(words: list[str]) -> list[str]:
    # PostgreSQL refuses to run as root.
    return ["runuser", "-u", USER, "--", *words] if os.getuid() == 0 else words


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of an empty server without its database name."""
    programs = _programs()
    if programs is None:
        pytest.skip(_NEEDS)
    folder = Path(tempfile.mkdtemp(prefix="firstfault-postgresql-"))
    if os.getuid() == 0:
        shutil.chown(folder, USER)
    owner = USER if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    data, port = folder / "data", _free_port()
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    start = [str(programs / "pg_ctl"), "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start"]
    try:
        subprocess.run(
            _as_user([str(programs / "initdb"), "-D", str(data), "-A", "trust", "-U", owner]),
            check=True,
            cwd=folder,
            capture_output=True,
        )
        subprocess.run(_as_user(start), check=True, cwd=folder, stdout=subprocess.DEVNULL)
        yield f"postgresql+psycopg://{owner}@127.0.0.1:{port}"
    finally:
        stop = [str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"]
        subprocess.run(_as_user(stop), cwd=folder, capture_output=True, check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'console.db'}"
        return
    import psycopg

    server = request.getfixturevalue("postgresql")
    name = f"test_{tmp_path.parent.name}_{tmp_path.name}".replace("-", "_").lower()[-60:]
    with psycopg.connect(server.replace("+psycopg", "") + "/postgres", autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
    yield f"{server}/{name}"
