"""What a console keeps: the records that flow between the store, the API and the pages. Times are UTC."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

State = Literal["open", "fixed", "verified", "came back"]
"""Of a failure in a history: seen; said to be fixed; shown to be fixed; seen again after that."""
Scope = Literal["diagnose", "read", "logs", "manage"]
"""What an API token may do: submit; read the history; send log records; change and delete."""
Role = Literal["member", "owner"]
Visibility = Literal["owner", "link"]


class Owner(msgspec.Struct, frozen=True):
    """Whose a record is: an account, a team, or a browser without an account (a random key in its cookie)."""

    kind: Literal["account", "team", "anonymous"]
    id: str


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks. `owner` is where new records go; `owners` are all whose records may be seen."""

    owner: Owner
    owners: tuple[Owner, ...]
    tier: str = "anonymous"
    scopes: frozenset[Scope] = frozenset()
    account_id: str | None = None
    email: str | None = None
    is_admin: bool = False
    session_id: str | None = None
    token_id: str | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A person with a password; never the password."""

    id: str
    email: str
    tier: str
    created_at: datetime
    is_admin: bool = False
    disabled: bool = False


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """Accounts with one history."""

    id: str
    name: str
    created_at: datetime


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """One account in one team."""

    team_id: str
    account_id: str
    email: str
    role: Role


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that is signed in, as its person may see it."""

    id: str
    agent: str
    created_at: datetime
    last_used_at: datetime


class ApiToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token of an account or team as it may be shown: never its secret. `prefix` are its first characters."""

    id: str
    owner: Owner
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class Invitation(msgspec.Struct, frozen=True, kw_only=True):
    """A way to sign up, or into a team, that works once."""

    id: str
    email: str | None
    team_id: str | None
    expires_at: datetime
    used: bool = False
    invited_by: str | None = None


class StoredDiagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """One answer with the redacted evidence it was made from. `diagnosis` and `capsule` are the JSON contracts' bytes.

    `follows` is the answer that this one continues (a missing fact was supplied); `visibility` "link": whoever has the id.
    """

    id: str
    owner: Owner
    created_at: datetime
    fingerprint: str
    verdict: str
    entry: str | None
    title: str
    rank: int | None
    project: str = ""
    visibility: Visibility = "owner"
    follows: str | None = None
    facts: dict[str, str] = {}
    diagnosis: bytes = b""
    capsule: bytes = b""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """All answers of one owner with one fingerprint: the same failure again."""

    owner: Owner
    fingerprint: str
    entry: str | None
    title: str
    project: str
    count: int
    first_seen_at: datetime
    last_seen_at: datetime
    state: State
    last_id: str
    fixed_at: datetime | None = None


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what to what, without content."""

    at: datetime
    actor: str
    action: str
    target: str
    detail: str = ""


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Where to go on in a list: `after` is the opaque cursor of the next page, None at the end."""

    after: str | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run whose log records come in over OTLP. `secret` keys the digests of its pseudonyms."""

    id: str
    owner: Owner
    name: str
    created_at: datetime
    last_at: datetime
    secret: bytes
    diagnosis_id: str | None = None
    records: int = 0


class StreamState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a stream of a run came: counts, and its last line, redacted. `name` is unique in the run, and redacted too."""

    run_id: str
    name: str
    host: str | None = None
    rank: int | None = None
    lines: int = 0
    size_bytes: int = 0
    kept: int = 0
    last_text: str = ""
    last_at: datetime | None = None


class StreamLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of evidence of a stream, redacted."""

    run_id: str
    stream: str
    number: int
    offset: int
    at: datetime | None
    text: str


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a page that follows a run is told; `id` counts up, so that it can go on where it stopped."""

    run_id: str
    kind: Literal["streams", "finding"]
    data: str
    id: int = 0


class LogWrite(msgspec.Struct, frozen=True, kw_only=True):
    """What one accepted request changes: written as a whole or not at all."""

    run_id: str
    at: datetime
    records: int
    streams: tuple[StreamState, ...]
    lines: tuple[StreamLine, ...] = ()
    names: dict[bytes, str] = {}
