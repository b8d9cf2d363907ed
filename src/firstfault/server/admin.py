"""What those who run a console do to it from a shell, by e-mail address. Each deed is a line of the audit log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError

from firstfault.errors import UsageError
from firstfault.server.accounts.leaving import erase_account, write_export
from firstfault.server.accounts.passwords import SHORTEST
from firstfault.server.accounts.people import INVITATION_LASTS, SignUpError, make_account, note, set_password
from firstfault.server.records import Account, Owner
from firstfault.server.settings import Settings, load_settings
from firstfault.server.store.accounts import TakenError, plain_email
from firstfault.server.store.connect import connect
from firstfault.server.store.migrate import present_revision, upgrade
from firstfault.server.store.schema import accounts, audit, diagnoses, failures, runs, teams
from firstfault.server.store.store import Store

ACTOR = "command line"
_COUNTED = (accounts, teams, diagnoses, failures, runs, audit)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """How much a console holds, and since when."""

    counts: dict[str, int]
    oldest_diagnosis: datetime | None
    active_today: int


class Administration:
    """A console's store and settings, and what may be done to them."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings

    def create(self, email: str, password: str, tier: str | None, *, is_admin: bool) -> Account:
        """A new account; UsageError if it cannot be made."""
        wanted = tier or self.settings.new_accounts_are
        self._known_tier(wanted)
        try:
            return make_account(self.store, email, password, wanted, is_admin=is_admin, actor=ACTOR)
        except (SignUpError, TakenError) as error:
            raise UsageError(str(error), where=email) from error

    def give_password(self, email: str, password: str) -> None:
        """A new password for somebody who lost his; all his sessions end."""
        account = self.account_of(email)
        try:
            set_password(self.store, account.id, password)
        except SignUpError as error:
            raise UsageError(str(error), where="password", hint=f"at least {SHORTEST} characters") from error
        note(self.store, ACTOR, "set password", account.id)

    def change(self, email: str, **values: str | bool) -> None:
        """Set `tier`, `is_admin` or `disabled` of an account; who is disabled is signed out."""
        account = self.account_of(email)
        if isinstance(tier := values.get("tier"), str):
            self._known_tier(tier)
        self.store.accounts.change(account.id, **values)
        if values.get("disabled"):
            self.store.sessions.end(account.id)
        note(self.store, ACTOR, "change account", account.id, " ".join(f"{name}={value}" for name, value in values.items()))

    def invite(self, email: str | None, team_id: str | None) -> str:
        """The link of an invitation, for the console's operator to send. UsageError if there is no such team."""
        address = plain_email(email) if email else None
        try:
            made, secret = self.store.invitations.create(INVITATION_LASTS, email=address, team_id=team_id)
        except IntegrityError as error:
            raise UsageError("there is no such team", where="--team") from error
        note(self.store, ACTOR, "invite", made.id, team_id or "")
        base = self.settings.base_url.rstrip("/") or f"http://{self.settings.host}:{self.settings.port}"
        return f"{base}/sign-up?invitation={secret}"

    def revoke(self, email: str) -> tuple[int, int]:
        """End all tokens and all sessions of an account; how many there were."""
        account = self.account_of(email)
        ended = self.store.tokens.revoke_made_by(account.id), self.store.sessions.end(account.id)
        note(self.store, ACTOR, "revoke", account.id, f"{ended[0]} tokens, {ended[1]} sessions")
        return ended

    def export(self, email: str, file: Path) -> int:
        """Write everything of an account as a zip; how many files it has. UsageError if it cannot be written."""
        account = self.account_of(email)
        try:
            with file.open("xb") as opened:
                count = write_export(self.store, [Owner("account", account.id)], opened)
        except OSError as error:
            raise UsageError(f"cannot be written: {error.strerror}", where=str(file)) from error
        note(self.store, ACTOR, "export", account.id)
        return count

    def erase(self, email: str) -> int:
        """Delete an account and everything of it; how many records there were."""
        account = self.account_of(email)
        return erase_account(self.store, account.id, actor=ACTOR)

    def stats(self) -> Stats:
        """How much there is."""
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        owner = diagnoses.c.owner_kind + ":" + diagnoses.c.owner_id
        active = select(func.count(func.distinct(owner))).where(diagnoses.c.created_at >= today)
        with self.store.access.read() as connection:
            counts = {
                table.name: connection.execute(select(func.count()).select_from(table)).scalar_one() for table in _COUNTED
            }
            oldest = connection.execute(select(func.min(diagnoses.c.created_at))).scalar_one()
            return Stats(counts=counts, oldest_diagnosis=oldest, active_today=connection.execute(active).scalar_one())

    def account_of(self, email: str) -> Account:
        """The account with that address; UsageError if there is none."""
        found = self.store.accounts.by_email(email)
        if found is None:
            raise UsageError("there is no account with that address", where=email, hint="firstfault admin accounts")
        return found

    def _known_tier(self, tier: str) -> None:
        if tier not in self.settings.tiers:
            raise UsageError(f"there is no tier `{tier}`", where="tier", hint=f"one of {', '.join(self.settings.tiers)}")


def migrate(url: str) -> tuple[str, str]:
    """Bring a database to the newest schema; its revision before ("" for an empty one) and after."""
    engine = connect(url)
    try:
        before = present_revision(engine)
        upgrade(engine)
        return before or "", present_revision(engine) or ""
    finally:
        engine.dispose()


def settings_of(config: Path | None, database: str | None) -> Settings:
    """The settings of the console that is meant."""
    return load_settings(config, given={"database_url": database})
