"""`/d/<id>`: one answer, what it stands on, and what may be done with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from litestar import Request, get, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from markupsafe import Markup

from firstfault.history.fingerprint import NO_FAILURE
from firstfault.ingest.capsule import Capsule
from firstfault.model.diagnosis import Diagnosis
from firstfault.render import words
from firstfault.render.html import Sections
from firstfault.render.patch import git_apply, left_out, to_patch
from firstfault.server.accounts.principal import address_key, requires
from firstfault.server.api.diagnoses import continuation
from firstfault.server.api.views import Answers
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Failure, Principal, StoredDiagnosis, Visibility
from firstfault.server.services import Services
from firstfault.server.submit import submit
from firstfault.server.web.frame import Form, Page, address_of, field, go, page
from firstfault.server.web.surroundings import surroundings

MAX_ANSWER_BYTES = 8 << 20


class Hint(NamedTuple):
    """What is to be typed, in words, and the keyboard for it."""

    text: str
    mode: str = "text"


# By the placeholder that the missing fact has in the place of choices.
_HINTS = {
    "SIZE": Hint("a size with its unit, such as 12.5 GiB"),
    "NUMBER": Hint("a number", "decimal"),
    "NUMBERS": Hint("numbers, such as 0, 1, 3"),
    "PATH": Hint("a path"),
    "TEXT": Hint("the words as they were printed"),
}


@get("/d/{diagnosis_id:str}", include_in_schema=False, sync_to_thread=True)
def show(
    diagnosis_id: FromPath[str], request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal
) -> Page:
    """The answer, for its owner and for whoever has a shared link."""
    found = _found(diagnosis_id, principal, services)
    address = address_of(f"/d/{found.id}", request, services)
    return page("diagnosis.html", services, principal, address=address, **_shown(found, principal, services))


@post("/d/{diagnosis_id:str}/answer", include_in_schema=False, request_max_body_size=MAX_ANSWER_BYTES, sync_to_thread=True)
def answer(
    diagnosis_id: FromPath[str], data: Form, request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal
) -> Page:
    """A missing fact was supplied: the answer goes on from there."""
    requires("diagnose", principal)
    before = _found(diagnosis_id, principal, services)
    name, value = field(data, "fact"), field(data, "value")
    given = Answers(facts={name: value} if name and value else {}, text=field(data, "text"))
    made = submit(continuation(before, given, services), principal, address_key(request, services), services)
    return go(services, f"/d/{made.id}")


@post("/d/{diagnosis_id:str}/share", include_in_schema=False, sync_to_thread=True)
def share(diagnosis_id: FromPath[str], data: Form, services: GivenServices, principal: GivenPrincipal) -> Page:
    """Whoever has the link sees it, or only the owner."""
    requires("manage", principal)
    seen_by: Visibility = "link" if field(data, "visibility") == "link" else "owner"
    if not services.store.diagnoses.set_visibility(diagnosis_id, principal, seen_by):
        raise NotFoundException("you have no such answer")
    return go(services, f"/d/{diagnosis_id}#share")


@post("/d/{diagnosis_id:str}/delete", include_in_schema=False, sync_to_thread=True)
def delete(diagnosis_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Page:
    """The answer and its evidence are gone."""
    requires("manage", principal)
    if not services.store.diagnoses.delete(diagnosis_id, principal):
        raise NotFoundException("you have no such answer")
    return go(services, "/h")


def _found(diagnosis_id: str, principal: Principal, services: Services) -> StoredDiagnosis:
    found = services.store.diagnoses.get(diagnosis_id, principal)
    if found is None:
        raise NotFoundException("There is no such answer, or it is not shared with you.")
    return found


def _shown(found: StoredDiagnosis, principal: Principal, services: Services) -> dict[str, Any]:
    diagnosis = msgspec.json.decode(found.diagnosis, type=Diagnosis)
    capsule = msgspec.json.decode(found.capsule, type=Capsule)
    entries = services.pack.entries
    titles = {entry.id: entry.title for entry in entries.values()}

    def link(entry: str) -> str:
        return services.url(f"/e/{entries[entry].category}/{entry}") if entry in entries else ""

    sections = Sections(diagnosis, titles, link=link, around=surroundings(capsule))
    owned = found.owner in principal.owners
    return {
        "found": found,
        "diagnosis": diagnosis,
        "sections": sections,
        "html": Markup,
        "read": words.what_was_read(diagnosis, here=False),
        "masked": len(capsule.masked),
        "name": f"{words.verdict_word(diagnosis)}: {words.title(diagnosis)}",
        "fix_word": words.fix_word(diagnosis),
        "patch": to_patch(diagnosis),
        "git_apply": git_apply(diagnosis),
        "not_in_patch": len(left_out(diagnosis)),
        "hint": _hint(diagnosis),
        "later": words.later_questions(diagnosis.missing),
        "owned": owned,
        "chain": services.store.diagnoses.chain(found.id, principal),
        "failure": _failure(found, services) if owned else None,
        "expires": _expires(found, services),
        "answers": f"/api/v1/diagnoses/{found.id}",
    }


def _hint(diagnosis: Diagnosis) -> Hint | None:
    """What to type where the answer is no choice; None where it is one, or is handed over as text."""
    asked = diagnosis.missing[0] if diagnosis.missing else None
    return _HINTS.get(asked.values[0]) if asked is not None and len(asked.values) == 1 else None


def _failure(found: StoredDiagnosis, services: Services) -> Failure | None:
    return services.store.failures.get(found.owner, found.fingerprint) if found.fingerprint != NO_FAILURE else None


def _expires(found: StoredDiagnosis, services: Services) -> datetime | None:
    settings = services.settings
    days = settings.anonymous_retention_days if found.owner.kind == "anonymous" else settings.retention_days
    return found.created_at.astimezone(UTC) + timedelta(days=days) if days is not None else None


handlers = [show, answer, share, delete]
