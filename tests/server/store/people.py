"""People and answers for the tests of the store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from firstfault.server.records import Owner, Principal, StoredDiagnosis
from firstfault.server.store.ids import new_id

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def person(name: str, *teams: str) -> Principal:
    own = Owner("account", name)
    return Principal(owner=own, owners=(own, *(Owner("team", team) for team in teams)), account_id=name)


ANNE, BEN = person("anne"), person("ben")


def answer(owner: Principal = ANNE, *, minutes: int = 0, **fields: object) -> StoredDiagnosis:
    made = StoredDiagnosis(
        id=new_id(),
        owner=owner.owner,
        created_at=NOON + timedelta(minutes=minutes),
        fingerprint="f1",
        verdict="established",
        entry="cuda-oom",
        title="CUDA out of memory",
        rank=3,
        facts={"trainer.n_gpu": "4"},
        diagnosis=b"{}",
        capsule=b"[]",
    )
    return replace(made, **fields)
