"""What the API says of records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from firstfault.server.records import ApiToken, Failure, Scope, State, StoredDiagnosis, Visibility
from firstfault.server.services import Services


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """An answer with what the console knows of it. `diagnosis` is the contract `firstfault.diagnosis/1`."""

    id: str
    url: str
    created_at: datetime
    fingerprint: str
    project: str
    visibility: Visibility
    follows: str | None
    facts: dict[str, str]
    diagnosis: msgspec.Raw
    allowance_left: int | None = None


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An answer in a list."""

    id: str
    url: str
    created_at: datetime
    fingerprint: str
    verdict: str
    entry: str | None
    title: str
    rank: int | None
    project: str


class Summaries(msgspec.Struct, frozen=True, kw_only=True):
    """A page of answers; `after` asks for the next one."""

    items: Sequence[Summary]
    after: str | None


class Failures(msgspec.Struct, frozen=True, kw_only=True):
    """A page of failures; `after` asks for the next one."""

    items: Sequence[Failure]
    after: str | None


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What answers a missing fact: facts by name, more text, or both."""

    facts: dict[str, str] = {}
    text: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may see an answer."""

    visibility: Visibility


class StateChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of a failure. That it came back is not said but seen."""

    state: State


class TokenWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to be made: of the account, or of one of its teams."""

    name: str
    scopes: tuple[Scope, ...]
    team_id: str | None = None
    expires_at: datetime | None = None


class NewToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token and its secret, which is shown this once."""

    token: ApiToken
    secret: str


class Me(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what is left for him today (None: without limit)."""

    kind: str
    email: str | None
    tier: str
    scopes: Sequence[Scope]
    diagnoses_left_today: int | None
    submission_bytes: int


class EntryView(msgspec.Struct, frozen=True, kw_only=True):
    """A cause of the encyclopedia."""

    id: str
    title: str
    category: str
    url: str
    refines: str | None
    aliases: Sequence[str]
    sections: dict[str, str]


def stored(found: StoredDiagnosis, services: Services, left: int | None = None) -> Stored:
    """The view of an answer."""
    return Stored(
        id=found.id,
        url=services.url(f"/d/{found.id}"),
        created_at=found.created_at,
        fingerprint=found.fingerprint,
        project=found.project,
        visibility=found.visibility,
        follows=found.follows,
        facts=found.facts,
        diagnosis=msgspec.Raw(found.diagnosis),
        allowance_left=left,
    )


def summary(found: StoredDiagnosis, services: Services) -> Summary:
    """The view of an answer in a list."""
    shown: dict[str, Any] = {name: getattr(found, name) for name in Summary.__struct_fields__ if name not in ("url",)}
    return Summary(url=services.url(f"/d/{found.id}"), **shown)
