"""Sessions, API tokens and invitations: what is carried is random, what is kept is its digest."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Row, and_, delete, insert, or_, select, update

from firstfault.server.records import Account, ApiToken, Invitation, Owner, Scope, Session
from firstfault.server.store.access import Access, as_utc, known_utc, of_owner
from firstfault.server.store.ids import new_id
from firstfault.server.store.schema import accounts, invitations, sessions, tokens

SECRET_BYTES = 32
TOKEN_START = "ff_"
PREFIX_CHARS = 8
NOTED_EVERY = timedelta(minutes=5)
"""The last use is written down no more often than this."""


def digest(secret: str) -> str:
    """What is kept of a secret: it is random enough that no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Sessions:
    """Browsers that are signed in."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(self, account_id: str, lasts: timedelta, agent: str = "") -> str:
        """A new session; what is given back is for the cookie and known to nobody else."""
        secret, now = secrets.token_urlsafe(SECRET_BYTES), datetime.now(UTC)
        values = {"id": new_id(), "account_id": account_id, "digest": digest(secret), "agent": agent[:200]}
        with self._access.write() as connection:
            connection.execute(insert(sessions).values(**values, created_at=now, last_used_at=now, expires_at=now + lasts))
        return secret

    def find(self, secret: str) -> tuple[str, Account] | None:
        """The session's id and its account; None for one that ended, or of an account that was disabled."""
        now = datetime.now(UTC)
        wanted = (
            select(sessions.c.id.label("session_id"), sessions.c.last_used_at, *_shown_accounts())
            .join(accounts, accounts.c.id == sessions.c.account_id)
            .where(sessions.c.digest == digest(secret), sessions.c.expires_at > now, accounts.c.disabled.is_(False))
        )
        with self._access.read() as connection:
            row = connection.execute(wanted).one_or_none()
        if row is None:
            return None
        if known_utc(row.last_used_at) < now - NOTED_EVERY:
            with self._access.write() as connection:
                connection.execute(update(sessions).where(sessions.c.id == row.session_id).values(last_used_at=now))
        return row.session_id, _account(row)

    def list(self, account_id: str) -> Sequence[Session]:
        """The sessions of an account, the last used first."""
        wanted = select(sessions).where(sessions.c.account_id == account_id, sessions.c.expires_at > datetime.now(UTC))
        with self._access.read() as connection:
            rows = connection.execute(wanted.order_by(sessions.c.last_used_at.desc())).all()
        return [
            Session(id=row.id, agent=row.agent, created_at=known_utc(row.created_at), last_used_at=known_utc(row.last_used_at))
            for row in rows
        ]

    def end(self, account_id: str, session_id: str | None = None, *, but: str | None = None) -> int:
        """End one session of an account, or all of them (`but` one); how many there were."""
        wanted = [sessions.c.account_id == account_id]
        wanted += [sessions.c.id == session_id] if session_id is not None else []
        wanted += [sessions.c.id != but] if but is not None else []
        with self._access.write() as connection:
            return connection.execute(delete(sessions).where(*wanted)).rowcount

    def rotate(self, account_id: str, session_id: str) -> str | None:
        """A new secret for a session: the old one works no longer. None if the session ended."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        one = (sessions.c.account_id == account_id, sessions.c.id == session_id)
        with self._access.write() as connection:
            changed = connection.execute(update(sessions).where(*one).values(digest=digest(secret))).rowcount
        return secret if changed else None


class Tokens:
    """API tokens of accounts and teams."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(
        self, owner: Owner, account_id: str | None, name: str, scopes: Sequence[Scope], expires_at: datetime | None = None
    ) -> tuple[ApiToken, str]:
        """A new token, and its secret, which is shown once. `account_id` is who made it: his leaving ends it."""
        secret = TOKEN_START + secrets.token_urlsafe(SECRET_BYTES)
        made = ApiToken(
            id=new_id(),
            owner=owner,
            name=name[:200],
            prefix=secret[:PREFIX_CHARS],
            scopes=tuple(scopes),
            created_at=datetime.now(UTC),
            expires_at=expires_at,
        )
        values = {name: getattr(made, name) for name in made.__struct_fields__ if name not in ("owner", "scopes")}
        owned = {"owner_kind": owner.kind, "owner_id": owner.id, "account_id": account_id, "scopes": list(scopes)}
        with self._access.write() as connection:
            connection.execute(insert(tokens).values(**values, **owned, digest=digest(secret)))
        return made, secret

    def find(self, secret: str) -> tuple[ApiToken, Account | None] | None:
        """The token and who made it; None for one that ended, or whose maker was disabled."""
        now = datetime.now(UTC)
        alive = or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now)
        maker = or_(tokens.c.account_id.is_(None), accounts.c.disabled.is_(False))
        joined = tokens.outerjoin(accounts, accounts.c.id == tokens.c.account_id)
        with self._access.read() as connection:
            found = select(tokens).select_from(joined).where(tokens.c.digest == digest(secret), and_(alive, maker))
            row = connection.execute(found).one_or_none()
            made_by = select(*_shown_accounts()).where(accounts.c.id == row.account_id) if row is not None else None
            account = connection.execute(made_by).one_or_none() if made_by is not None else None
        if row is None:
            return None
        used = as_utc(row.last_used_at)
        if used is None or used < now - NOTED_EVERY:
            with self._access.write() as connection:
                connection.execute(update(tokens).where(tokens.c.id == row.id).values(last_used_at=now))
        return _token(row), _account(account) if account is not None else None

    def list(self, owner: Owner) -> Sequence[ApiToken]:
        """The tokens of an owner, the newest first."""
        with self._access.read() as connection:
            rows = connection.execute(select(tokens).where(of_owner(tokens, owner)).order_by(tokens.c.created_at.desc())).all()
        return [_token(row) for row in rows]

    def revoke(self, owner: Owner, token_id: str | None = None) -> int:
        """End one token of an owner, or all; how many there were."""
        wanted = [of_owner(tokens, owner), *([tokens.c.id == token_id] if token_id is not None else [])]
        with self._access.write() as connection:
            return connection.execute(delete(tokens).where(*wanted)).rowcount

    def revoke_made_by(self, account_id: str) -> int:
        """End all that an account made, its own and those of its teams; how many there were."""
        with self._access.write() as connection:
            return connection.execute(delete(tokens).where(tokens.c.account_id == account_id)).rowcount


class Invitations:
    """Ways to sign up, or into a team, that work once."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def create(
        self, lasts: timedelta, *, email: str | None = None, team_id: str | None = None, invited_by: str | None = None
    ) -> tuple[Invitation, str]:
        """A new invitation, and the secret that its link carries."""
        secret, expires_at = secrets.token_urlsafe(SECRET_BYTES), datetime.now(UTC) + lasts
        made = Invitation(id=new_id(), email=email, team_id=team_id, expires_at=expires_at, invited_by=invited_by)
        values = {name: getattr(made, name) for name in made.__struct_fields__}
        with self._access.write() as connection:
            connection.execute(insert(invitations).values(**values, digest=digest(secret)))
        return made, secret

    def find(self, secret: str) -> Invitation | None:
        """The invitation of a link; None for one that was used or is too old."""
        wanted = (
            invitations.c.digest == digest(secret),
            invitations.c.used.is_(False),
            invitations.c.expires_at > datetime.now(UTC),
        )
        with self._access.read() as connection:
            row = connection.execute(select(invitations).where(*wanted)).one_or_none()
        if row is None:
            return None
        return _invitation(row)

    def list(self, team_id: str | None = None) -> Sequence[Invitation]:
        """Those that still work: into one team, or all."""
        wanted = [invitations.c.used.is_(False), invitations.c.expires_at > datetime.now(UTC)]
        wanted += [invitations.c.team_id == team_id] if team_id is not None else []
        with self._access.read() as connection:
            rows = connection.execute(select(invitations).where(*wanted).order_by(invitations.c.expires_at)).all()
        return [_invitation(row) for row in rows]

    def revoke(self, invitation_id: str, team_id: str | None) -> bool:
        """Take an invitation into that team (or into none) back. False if there is none that still works."""
        one = (invitations.c.id == invitation_id, invitations.c.team_id == team_id, invitations.c.used.is_(False))
        with self._access.write() as connection:
            return connection.execute(delete(invitations).where(*one)).rowcount == 1

    def use(self, invitation_id: str) -> bool:
        """Use it up. False if somebody did already: of two at once one gets it."""
        one = update(invitations).where(invitations.c.id == invitation_id, invitations.c.used.is_(False))
        with self._access.write() as connection:
            return connection.execute(one.values(used=True)).rowcount == 1

    def give_back(self, invitation_id: str) -> None:
        """Let it be used again: what it was used for did not happen."""
        with self._access.write() as connection:
            connection.execute(update(invitations).where(invitations.c.id == invitation_id).values(used=False))


def _shown_accounts() -> list[Any]:
    return [column for column in accounts.c if column.name != "password"]


def _account(row: Row[Any]) -> Account:
    values = {name: getattr(row, name) for name in Account.__struct_fields__}
    return Account(**{**values, "created_at": known_utc(row.created_at)})


def _invitation(row: Row[Any]) -> Invitation:
    values = {name: getattr(row, name) for name in Invitation.__struct_fields__}
    return Invitation(**{**values, "expires_at": known_utc(row.expires_at)})


def _token(row: Row[Any]) -> ApiToken:
    return ApiToken(
        id=row.id,
        owner=Owner(row.owner_kind, row.owner_id),
        name=row.name,
        prefix=row.prefix,
        scopes=tuple(row.scopes),
        created_at=known_utc(row.created_at),
        last_used_at=as_utc(row.last_used_at),
        expires_at=as_utc(row.expires_at),
    )
