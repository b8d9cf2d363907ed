"""Accounts with their password hashes, and the teams they share a history in."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from firstfault.server.records import Account, Membership, Owner, Role, Team
from firstfault.server.store.access import Access, known_utc, of_owner
from firstfault.server.store.ids import new_id
from firstfault.server.store.schema import accounts, memberships, teams, tokens

MAX_NAME_CHARS = 200
_SHOWN = [column for column in accounts.c if column.name != "password"]


class TakenError(Exception):
    """An account with that e-mail address exists."""


class LastOwnerError(Exception):
    """A team with members has an owner: make another member one first, or delete the team."""


class Accounts:
    """The people of a console. E-mail addresses are compared without case."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(self, email: str, password_hash: str, tier: str, *, is_admin: bool = False) -> Account:
        """A new account; TakenError if the address is taken."""
        made = Account(id=new_id(), email=plain_email(email), tier=tier, created_at=datetime.now(UTC), is_admin=is_admin)
        values = {name: getattr(made, name) for name in made.__struct_fields__}
        try:
            with self._access.write() as connection:
                connection.execute(insert(accounts).values(**values, password=password_hash))
        except IntegrityError as error:
            raise TakenError("there is an account with that address") from error
        return made

    def get(self, account_id: str) -> Account | None:
        """The account with that id."""
        return self._one(accounts.c.id == account_id)

    def by_email(self, email: str) -> Account | None:
        """The account with that address."""
        return self._one(accounts.c.email == plain_email(email))

    def password_hash(self, account_id: str) -> str | None:
        """The hash of the account's password."""
        with self._access.read() as connection:
            return connection.execute(select(accounts.c.password).where(accounts.c.id == account_id)).scalar_one_or_none()

    def change(self, account_id: str, **values: str | bool) -> bool:
        """Set `password` (its hash), `tier`, `is_admin` or `disabled`. False if there is no such account."""
        with self._access.write() as connection:
            return connection.execute(update(accounts).where(accounts.c.id == account_id).values(**values)).rowcount == 1

    def list(self) -> Sequence[Account]:
        """All accounts, the oldest first."""
        with self._access.read() as connection:
            return [_account(row) for row in connection.execute(select(*_SHOWN).order_by(accounts.c.created_at))]

    def count(self) -> int:
        """How many accounts there are."""
        with self._access.read() as connection:
            return connection.execute(select(func.count()).select_from(accounts)).scalar_one()

    def delete(self, account_id: str) -> bool:
        """Forget the account with its sessions, tokens and memberships. False if there is none."""
        with self._access.write() as connection:
            return connection.execute(delete(accounts).where(accounts.c.id == account_id)).rowcount == 1

    def _one(self, condition: Any) -> Account | None:
        with self._access.read() as connection:
            row = connection.execute(select(*_SHOWN).where(condition)).one_or_none()
        return _account(row) if row is not None else None


class Teams:
    """Teams and who is in them."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(self, name: str, owner_id: str) -> Team:
        """A new team that the account owns."""
        made = Team(id=new_id(), name=name[:MAX_NAME_CHARS], created_at=datetime.now(UTC))
        with self._access.write() as connection:
            connection.execute(insert(teams).values(id=made.id, name=made.name, created_at=made.created_at))
            connection.execute(insert(memberships).values(team_id=made.id, account_id=owner_id, role="owner"))
        return made

    def of_account(self, account_id: str) -> Sequence[tuple[Team, Role]]:
        """The teams that an account is in, and as what."""
        found = (
            select(teams, memberships.c.role)
            .join(memberships, memberships.c.team_id == teams.c.id)
            .where(memberships.c.account_id == account_id)
            .order_by(teams.c.name)
        )
        with self._access.read() as connection:
            rows = connection.execute(found).all()
        return [(Team(id=row.id, name=row.name, created_at=known_utc(row.created_at)), row.role) for row in rows]

    def members(self, team_id: str) -> Sequence[Membership]:
        """Who is in the team."""
        found = (
            select(memberships, accounts.c.email)
            .join(accounts, accounts.c.id == memberships.c.account_id)
            .where(memberships.c.team_id == team_id)
            .order_by(accounts.c.email)
        )
        with self._access.read() as connection:
            return [Membership(**row._mapping) for row in connection.execute(found)]

    def add(self, team_id: str, account_id: str, role: Role = "member") -> None:
        """Put the account into the team; nothing changes if it is there."""
        row = self._access.upsert(memberships).values(team_id=team_id, account_id=account_id, role=role)
        with self._access.write() as connection:
            connection.execute(row.on_conflict_do_nothing())

    def set_role(self, team_id: str, account_id: str, role: Role) -> bool:
        """Make a member an owner, or an owner a member. False if the account is not there; LastOwnerError for the last one."""
        with self._access.write() as connection:
            if role != "owner":
                _keep_an_owner(connection, team_id, account_id)
            return connection.execute(update(memberships).where(*_one(team_id, account_id)).values(role=role)).rowcount == 1

    def remove(self, team_id: str, account_id: str) -> bool:
        """Take the account out of the team, with the team's tokens that it made. False if it is not there.

        LastOwnerError if others would be left without an owner.
        """
        made = (of_owner(tokens, Owner("team", team_id)), tokens.c.account_id == account_id)
        with self._access.write() as connection:
            _keep_an_owner(connection, team_id, account_id)
            connection.execute(delete(tokens).where(*made))
            return connection.execute(delete(memberships).where(*_one(team_id, account_id))).rowcount == 1

    def delete(self, team_id: str) -> bool:
        """Forget the team; its records are the caller's to delete before."""
        with self._access.write() as connection:
            return connection.execute(delete(teams).where(teams.c.id == team_id)).rowcount == 1


def _one(team_id: str, account_id: str) -> tuple[Any, ...]:
    return memberships.c.team_id == team_id, memberships.c.account_id == account_id


def _keep_an_owner(connection: Connection, team_id: str, account_id: str) -> None:
    # Locked, so that two owners who go at once do not both count on the other.
    connection.execute(select(teams.c.id).where(teams.c.id == team_id).with_for_update())
    rows = connection.execute(
        select(memberships.c.account_id, memberships.c.role).where(memberships.c.team_id == team_id)
    ).all()
    others = [row.role for row in rows if row.account_id != account_id]
    if len(others) < len(rows) and others and "owner" not in others:
        raise LastOwnerError("a team with members has an owner: make another member one first, or delete the team")


def plain_email(email: str) -> str:
    """The address as it is compared."""
    return email.strip().casefold()


def _account(row: Row[Any]) -> Account:
    return Account(**{**row._mapping, "created_at": known_utc(row.created_at)})
