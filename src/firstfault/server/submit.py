"""From a capsule to a stored answer: allowance, idempotency, the engine, the history."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic, sleep

import msgspec
from msgspec.structs import replace

from firstfault.history.fingerprint import fingerprint
from firstfault.ingest.capsule import Capsule, CapsuleSource, encode
from firstfault.server import ops
from firstfault.server.accounts.allowance import take_one, tier_of
from firstfault.server.accounts.principal import requires
from firstfault.server.records import Principal, StoredDiagnosis
from firstfault.server.services import Services
from firstfault.server.store.allowances import AllowanceSpentError
from firstfault.server.store.ids import new_id
from firstfault.server.work import BusyError, LimitError, OwnFaultError, RefusedError

MAX_KEY_CHARS = 200
MAX_PROJECT_CHARS = 200
MAX_FACTS = 50
WAIT_FOR_TWIN_S = 90.0


class ConflictError(Exception):
    """The idempotency key was used for something else, or for a submission that is not answered yet."""


class TooLargeError(Exception):
    """The submission is larger than one of this tier may be."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be diagnosed: the capsule's bytes, answered facts, and where it belongs.

    `follows` is the answer that it continues; `key` names the submission, so that sent twice it is answered once.
    """

    capsule: bytes
    facts: dict[str, str] = {}
    project: str = ""
    follows: str | None = None
    key: str | None = None


def submit(sent: Submission, principal: Principal, address: str, services: Services) -> StoredDiagnosis:
    """The stored answer.

    PermissionDeniedException, TooLargeError, ConflictError, AllowanceSpentError, and what `Work.diagnose` raises.
    """
    requires("diagnose", principal)
    if len(sent.capsule) > tier_of(principal, services.settings).submission_bytes:
        raise TooLargeError(f"{len(sent.capsule):,} bytes are more than one submission may have")
    if len(sent.facts) > MAX_FACTS or len(sent.project) > MAX_PROJECT_CHARS or len(sent.key or "") > MAX_KEY_CHARS:
        raise RefusedError("facts, project or key are too long")
    diagnosis_id = new_id()
    if sent.key is not None:
        known = _claim(sent, sent.key, diagnosis_id, principal, services)
        if known is not None:
            return known
    try:
        return _answer(sent, diagnosis_id, principal, address, services)
    except BaseException:
        if sent.key is not None:
            services.store.submissions.forget(principal.owner, sent.key)
        raise


def continued(before: StoredDiagnosis, facts: Mapping[str, str], more: Capsule | None) -> Submission:
    """The submission that continues an answer with facts, with more sources, or with both."""
    capsule = before.capsule
    if more is not None:
        earlier = msgspec.json.decode(before.capsule, type=Capsule)
        taken = {source.path for source in earlier.sources}
        added = tuple(_named_apart(source, taken) for source in more.sources)
        capsule = encode(replace(earlier, sources=(*earlier.sources, *added), masked=(*earlier.masked, *more.masked)))
    return Submission(capsule=capsule, facts={**before.facts, **facts}, project=before.project, follows=before.id)


def pseudonyms_of(before: StoredDiagnosis) -> list[tuple[str, str]]:
    """By kind, for text that follows to use none of them: whether a host is the same again cannot be known here."""
    return [(item.kind, item.pseudonym) for item in msgspec.json.decode(before.capsule, type=Capsule).masked]


def _claim(sent: Submission, key: str, diagnosis_id: str, principal: Principal, services: Services) -> StoredDiagnosis | None:
    """Take the key; the answer that it stands for already, if it does."""
    content = msgspec.json.encode([sent.facts, sent.project, sent.follows])
    digest = hashlib.sha256(sent.capsule + b"\0" + content).hexdigest()
    if services.store.submissions.remember(principal.owner, key, digest, diagnosis_id):
        return None
    known = services.store.submissions.find(principal.owner, key)
    if known is None or known[0] != digest:
        raise ConflictError("this Idempotency-Key was used for another submission")
    deadline = monotonic() + WAIT_FOR_TWIN_S
    while monotonic() < deadline:
        found = services.store.diagnoses.get(known[1], principal)
        if found is not None:
            return found
        if services.store.submissions.find(principal.owner, key) != known:
            break
        sleep(0.1)
    raise ConflictError("the submission with this Idempotency-Key is not answered yet, or was deleted")


def _answer(sent: Submission, diagnosis_id: str, principal: Principal, address: str, services: Services) -> StoredDiagnosis:
    begin = monotonic()
    try:
        take_one(principal, address, services)
        diagnosis, capsule, facts = services.work.answer(sent.capsule, sent.facts)
    except (AllowanceSpentError, BusyError, LimitError, OwnFaultError, RefusedError) as error:
        ops.REFUSED.labels(type(error).__name__.removesuffix("Error").lower()).inc()
        raise
    ops.DIAGNOSIS_SECONDS.observe(monotonic() - begin)
    ops.DIAGNOSES.labels(diagnosis.verdict).inc()
    made = StoredDiagnosis(
        id=diagnosis_id,
        owner=principal.owner,
        created_at=datetime.now(UTC),
        fingerprint=fingerprint(diagnosis),
        verdict=diagnosis.verdict,
        entry=diagnosis.entry,
        title=diagnosis.title,
        rank=diagnosis.initiating.rank if diagnosis.initiating else None,
        project=sent.project,
        follows=sent.follows,
        facts=facts,
        diagnosis=msgspec.json.encode(diagnosis),
        capsule=capsule,
        # Without an account there is nobody to sign in: the link is the only way back to it.
        visibility="link" if principal.owner.kind == "anonymous" and not services.settings.private else "owner",
    )
    services.store.diagnoses.add(made)
    return made


def _named_apart(source: CapsuleSource, taken: set[str]) -> CapsuleSource:
    name, number = source.path, 2
    while name in taken:
        name, number = f"{source.path}#{number}", number + 1
    taken.add(name)
    return replace(source, path=name)
