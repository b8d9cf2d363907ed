"""`/api/v1/diagnoses`: submit, look at, continue, share and delete answers."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, delete, get, patch, post
from litestar.exceptions import NotFoundException
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from firstfault.ingest.capsule import Capsule
from firstfault.model.diagnosis import Diagnosis
from firstfault.render.html import to_html
from firstfault.render.markdown import to_markdown
from firstfault.render.patch import to_patch
from firstfault.server.accounts.allowance import left, tier_of
from firstfault.server.accounts.principal import address_key, requires
from firstfault.server.api.body import PASTED, bounded, read_body
from firstfault.server.api.views import Answers, Change, Stored, Summaries, stored, summary
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.records import Principal, State, StoredDiagnosis
from firstfault.server.services import Services
from firstfault.server.submit import Submission, continued, pseudonyms_of, submit
from firstfault.server.work import RefusedError

MAX_PAGE = 200
_KEY = HeaderParameter(name="Idempotency-Key", description="Sent twice with one key, it is answered once.")
Key = Annotated[str | None, _KEY]
# `state` alone is a name that Litestar keeps for itself.
OfState = Annotated[State | None, QueryParameter(name="state")]


@post("/diagnoses", summary="Submit evidence", status_code=201, request_max_body_size=None)
async def create(
    request: Request[Any, Any, Any],
    services: GivenServices,
    principal: GivenPrincipal,
    key: Key = None,
    project: FromQuery[str] = "",
    fact: FromQuery[list[str] | None] = None,
) -> Stored:
    """Takes a capsule (`firstfault.capsule/1`, application/json), or small text or files, which are redacted on arrival."""
    requires("diagnose", principal)
    limit = tier_of(principal, services.settings).submission_bytes
    capsule = await read_body(request, services.work, limit)
    sent = Submission(capsule=capsule, facts=_facts(fact or []), project=project, key=key)
    return await _submitted(sent, request, principal, services)


@get("/diagnoses", summary="List answers", sync_to_thread=True)
def index(
    services: GivenServices,
    principal: GivenPrincipal,
    entry: FromQuery[str | None] = None,
    project: FromQuery[str | None] = None,
    fingerprint: FromQuery[str | None] = None,
    of_state: OfState = None,
    after: FromQuery[str | None] = None,
    limit: FromQuery[int] = 50,
) -> Summaries:
    """Your answers, the newest first."""
    requires("read", principal)
    wanted = {"entry": entry, "project": project, "fingerprint": fingerprint, "state": of_state, "after": after}
    found, page = services.store.diagnoses.list(principal, **wanted, limit=min(max(limit, 1), MAX_PAGE))
    return Summaries(items=[summary(one, services) for one in found], after=page.after)


@get("/diagnoses/{diagnosis_id:str}", summary="One answer", sync_to_thread=True)
def show(diagnosis_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> Stored:
    """The answer with what the console knows of it."""
    return stored(_found(diagnosis_id, principal, services), services)


@get("/diagnoses/{diagnosis_id:str}/{name:str}", summary="One answer in another form", sync_to_thread=True)
def show_as(
    diagnosis_id: FromPath[str], name: FromPath[str], services: GivenServices, principal: GivenPrincipal
) -> Response[bytes]:
    """`diagnosis.json`, `diagnosis.md`, `diagnosis.html`, `fix.patch`, or the `capsule.json` that it was made from."""
    found = _found(diagnosis_id, principal, services)
    if name == "capsule.json":
        return _file(found.capsule, "application/json", name)
    if name == "diagnosis.json":
        return _file(found.diagnosis, "application/json", name)
    diagnosis = msgspec.json.decode(found.diagnosis, type=Diagnosis)
    titles = {entry.id: entry.title for entry in services.pack.entries.values()}
    if name == "diagnosis.md":
        return _file(to_markdown(diagnosis, titles=titles, here=False).encode(), "text/markdown; charset=utf-8", name)
    if name == "diagnosis.html":
        return _file(to_html(diagnosis, titles=titles, here=False).encode(), "text/html; charset=utf-8", name)
    if name == "fix.patch":
        return _file(to_patch(diagnosis).encode(), "text/x-diff; charset=utf-8", name)
    raise NotFoundException("there is no such form of an answer")


@post("/diagnoses/{diagnosis_id:str}/answers", summary="Answer a missing fact", status_code=201)
async def answer(
    diagnosis_id: FromPath[str],
    request: Request[Any, Any, Any],
    services: GivenServices,
    principal: GivenPrincipal,
    key: Key = None,
) -> Stored:
    """A new answer that continues the one before with facts (`name: value`), with more text, or with both."""
    requires("diagnose", principal)
    before = await asyncio.to_thread(_found, diagnosis_id, principal, services)
    limit = tier_of(principal, services.settings).submission_bytes
    try:
        given = msgspec.json.decode(await bounded(request, limit), type=Answers)
    except msgspec.MsgspecError as error:
        raise RefusedError(str(error), hint='send {"facts": {"name": "value"}, "text": "..."}') from error
    sent = await asyncio.to_thread(continuation, before, given, services)
    return await _submitted(msgspec.structs.replace(sent, key=key), request, principal, services)


def continuation(before: StoredDiagnosis, given: Answers, services: Services) -> Submission:
    """The submission that continues an answer; RefusedError if nothing was given."""
    if not given.facts and not given.text.strip():
        raise RefusedError("nothing was answered", hint="give a fact, or paste what the command printed")
    more: Capsule | None = None
    if given.text.strip():
        data = given.text.replace("\r\n", "\n").encode("utf-8", "replace")
        more = msgspec.json.decode(services.work.gather([(PASTED, data)], pseudonyms_of(before)), type=Capsule)
    return continued(before, given.facts, more)


@patch("/diagnoses/{diagnosis_id:str}", summary="Share an answer, or not any more", sync_to_thread=True)
def change(diagnosis_id: FromPath[str], data: JSONBody[Change], services: GivenServices, principal: GivenPrincipal) -> Stored:
    """With `link`, whoever has its address sees it."""
    requires("manage", principal)
    if not services.store.diagnoses.set_visibility(diagnosis_id, principal, data.visibility):
        raise NotFoundException("you have no such answer")
    return stored(_found(diagnosis_id, principal, services), services)


@delete("/diagnoses/{diagnosis_id:str}", summary="Delete an answer", sync_to_thread=True)
def remove(diagnosis_id: FromPath[str], services: GivenServices, principal: GivenPrincipal) -> None:
    """The answer and the evidence that it was made from."""
    requires("manage", principal)
    if not services.store.diagnoses.delete(diagnosis_id, principal):
        raise NotFoundException("you have no such answer")


async def _submitted(sent: Submission, request: Request[Any, Any, Any], principal: Principal, services: Services) -> Stored:
    def run() -> Stored:
        address = address_key(request, services)
        made = submit(sent, principal, address, services)
        return stored(made, services, left(principal, address, services))

    return await asyncio.to_thread(run)


def _found(diagnosis_id: str, principal: Principal, services: Services) -> StoredDiagnosis:
    found = services.store.diagnoses.get(diagnosis_id, principal)
    if found is None:
        # Whether there is one that is somebody else's is nobody's business.
        raise NotFoundException("there is no such answer, or it is not yours")
    return found


def _facts(given: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if any(not name or not sign for name, sign, _ in pairs):
        raise RefusedError("a fact is name=value", where="fact")
    return {name: value for name, _, value in pairs}


def _file(data: bytes, media_type: str, name: str) -> Response[bytes]:
    headers = {
        "Content-Disposition": f'inline; filename="{name}"',
        "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'",
    }
    return Response(data, media_type=media_type, headers=headers)


handlers = [create, index, show, show_as, answer, change, remove]
