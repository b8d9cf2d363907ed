"""`firstfault serve`: the console in a browser, for the person without a shell and the team that wants history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.commands import COMMANDS
from firstfault.errors import UsageError

if TYPE_CHECKING:
    from firstfault.server.settings import Settings

HINT = "pip install 'firstfault[server]'"


@click.command(short_help=COMMANDS["serve"])
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="Settings in TOML; see docs/console.md.")
@click.option("--database", metavar="URL", help="sqlite:///FILE (default firstfault.db) or postgresql+psycopg://...")
@click.option("--host", help="Address to listen on; default 127.0.0.1.")
@click.option("--port", type=click.IntRange(0, 65535), help="Default 8765.")
@click.option("--base-url", metavar="URL", help="What people type, where a proxy stands before the console.")
@click.option("--private", is_flag=True, default=None, help="No allowances and no rate limits: a server of one person or team.")
def serve(
    config: Path | None, database: str | None, host: str | None, port: int | None, base_url: str | None, private: bool | None
) -> None:
    """Serve the console and its API; Ctrl-C or SIGTERM ends it after the requests that run."""
    try:
        from firstfault.server.settings import load_settings
        from firstfault.server.start import run
    except ModuleNotFoundError as error:
        raise UsageError(f"the console needs the package {error.name}", where="serve", hint=HINT) from error
    given = {"database_url": database, "host": host, "port": port, "base_url": base_url, "private": private}
    settings: Settings = load_settings(config, given=given)
    run(settings)
