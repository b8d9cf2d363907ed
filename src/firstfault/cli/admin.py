"""`firstfault admin`: look after a console from its host: accounts, invitations, expiry, export, erasure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from firstfault.cli.commands import COMMANDS
from firstfault.cli.serve import HINT
from firstfault.errors import UsageError
from firstfault.render import safe

if TYPE_CHECKING:
    from firstfault.server.admin import Administration
    from firstfault.server.settings import Settings


@click.group(short_help=COMMANDS["admin"], no_args_is_help=True)
@click.option("--config", type=click.Path(dir_okay=False, path_type=Path), help="The console's settings; as for `serve`.")
@click.option("--database", metavar="URL", help="The console's database; as for `serve`.")
@click.pass_context
def admin(ctx: click.Context, config: Path | None, database: str | None) -> None:
    """Look after a console from the host it runs on; it may run meanwhile."""
    ctx.obj = (config, database)


@admin.command("migrate")
@click.pass_obj
def migrate_database(given: tuple[Path | None, str | None]) -> None:
    """Bring the database to the newest schema. `serve` does so when it starts."""
    settings = _settings(given)
    from firstfault.server.admin import migrate

    before, after = migrate(settings.database_url)
    click.echo(f"{before or 'empty'} -> {after}")


@admin.command()
@click.pass_obj
def stats(given: tuple[Path | None, str | None]) -> None:
    """Say how much the console holds."""
    with _console(given) as console:
        found = console.stats()
    for name, count in found.counts.items():
        click.echo(f"{name:<12} {count:>10,}")
    click.echo(f"{'active today':<12} {found.active_today:>10,}")
    if found.oldest_diagnosis is not None:
        click.echo(f"the oldest diagnosis is of {found.oldest_diagnosis:%Y-%m-%d}")


@admin.command()
@click.pass_obj
def accounts(given: tuple[Path | None, str | None]) -> None:
    """List the accounts."""
    with _console(given) as console:
        for one in console.store.accounts.list():
            marks = " ".join(name for name, on in (("admin", one.is_admin), ("disabled", one.disabled)) if on)
            click.echo(f"{one.created_at:%Y-%m-%d}  {one.tier:<10}  {safe.line(one.email)}  {marks}".rstrip())


@admin.command("create-account")
@click.argument("email")
@click.option("--admin", "is_admin", is_flag=True, help="Mark it as one of those who run the console.")
@click.option("--tier", help="What it may do a day; default the setting new_accounts_are.")
@click.pass_obj
def create_account(given: tuple[Path | None, str | None], email: str, is_admin: bool, tier: str | None) -> None:
    """Make an account, also where signing up is off. The password is asked for, or read from standard input."""
    with _console(given) as console:
        made = console.create(email, _password(), tier, is_admin=is_admin)
    click.echo(f"{safe.line(made.email)} has an account, tier {made.tier}" + (", admin" if made.is_admin else ""))


@admin.command("set-password")
@click.argument("email")
@click.pass_obj
def set_password(given: tuple[Path | None, str | None], email: str) -> None:
    """Give an account a new password. Its sessions end."""
    with _console(given) as console:
        console.account_of(email)
        console.give_password(email, _password())


@admin.command("make-admin")
@click.argument("email")
@click.option("--undo", is_flag=True, help="Not any more.")
@click.pass_obj
def make_admin(given: tuple[Path | None, str | None], email: str, undo: bool) -> None:
    """Mark an account as one of those who run the console."""
    _change(given, email, is_admin=not undo)


@admin.command("set-tier")
@click.argument("email")
@click.argument("tier")
@click.pass_obj
def set_tier(given: tuple[Path | None, str | None], email: str, tier: str) -> None:
    """Set what an account may do a day."""
    _change(given, email, tier=tier)


@admin.command()
@click.argument("email")
@click.option("--undo", is_flag=True, help="Let it in again.")
@click.pass_obj
def disable(given: tuple[Path | None, str | None], email: str, undo: bool) -> None:
    """Keep an account out. Its sessions end, its tokens do not work."""
    _change(given, email, disabled=not undo)


@admin.command()
@click.argument("email", required=False)
@click.option("--team", metavar="ID", help="Into this team as well.")
@click.pass_obj
def invite(given: tuple[Path | None, str | None], email: str | None, team: str | None) -> None:
    """Print the link of a new invitation. It works once, and for one address only if one is given."""
    with _console(given) as console:
        click.echo(console.invite(email, team))


@admin.command("revoke-tokens")
@click.argument("email")
@click.pass_obj
def revoke_tokens(given: tuple[Path | None, str | None], email: str) -> None:
    """End all tokens and sessions of an account."""
    with _console(given) as console:
        tokens, sessions = console.revoke(email)
    click.echo(f"{tokens} tokens and {sessions} sessions ended")


@admin.command()
@click.option("--actor", help="An account's address or id, or what else acted.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=200, show_default=True)
@click.pass_obj
def audit(given: tuple[Path | None, str | None], actor: str | None, limit: int) -> None:
    """Print who did what, the newest first, tab-separated."""
    with _console(given) as console:
        account = console.store.accounts.by_email(actor) if actor else None
        for one in console.store.audit.list(actor=account.id if account else actor, limit=limit):
            words = (one.at.isoformat(timespec="seconds"), one.actor, one.action, one.target, one.detail)
            click.echo("\t".join(safe.line(word) for word in words))


@admin.command()
@click.pass_obj
def expire(given: tuple[Path | None, str | None]) -> None:
    """Delete now what is older than the settings say. A running console does so every six hours."""
    with _console(given) as console:
        for name, count in console.store.retention.expire(console.settings).items():
            click.echo(f"{name:<12} {count:>10,}")


@admin.command()
@click.argument("email")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.pass_obj
def export(given: tuple[Path | None, str | None], email: str, file: Path) -> None:
    """Write all that is kept of an account to a zip. FILE must not exist."""
    with _console(given) as console:
        count = console.export(email, file)
    click.echo(f"{count} files in {safe.line(str(file))}")


@admin.command()
@click.argument("email")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def erase(given: tuple[Path | None, str | None], email: str, yes: bool) -> None:
    """Delete an account with all that is kept of it. For good."""
    with _console(given) as console:
        console.account_of(email)
        if not yes:
            click.confirm(f"Delete {safe.line(email)} and all its diagnoses?", abort=True)
        click.echo(f"{console.erase(email)} records deleted")


def _change(given: tuple[Path | None, str | None], email: str, **values: str | bool) -> None:
    with _console(given) as console:
        console.change(email, **values)


def _settings(given: tuple[Path | None, str | None]) -> Settings:
    config, database = given
    try:
        from firstfault.server.admin import settings_of
    except ModuleNotFoundError as error:
        raise UsageError(f"the console needs the package {error.name}", where="admin", hint=HINT) from error
    return settings_of(config, database)


@contextmanager
def _console(given: tuple[Path | None, str | None]) -> Iterator[Administration]:
    settings = _settings(given)
    from firstfault.server.admin import Administration
    from firstfault.server.store.store import open_store

    store = open_store(settings.database_url)
    try:
        yield Administration(store, settings)
    finally:
        store.close()


def _password() -> str:
    """Asked for at a terminal, twice; else the first line of standard input."""
    if sys.stdin.isatty():
        asked: str = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        return asked
    return sys.stdin.readline().rstrip("\r\n")
