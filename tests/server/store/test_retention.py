"""What is too old goes, what somebody owns can be taken along, and nothing of who went is left."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace
from sqlalchemy import func, select

from firstfault.server.records import AuditLine, LogWrite, Owner, StreamLine, StreamState
from firstfault.server.settings import Settings
from firstfault.server.store.schema import metadata
from firstfault.server.store.store import Store
from server.store.people import ANNE, BEN, NOON, answer, person

GUEST = Owner("anonymous", "g1")


def counts(store: Store) -> dict[str, int]:
    with store.access.read() as connection:
        found = {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in metadata.sorted_tables
        }
    return {name: count for name, count in found.items() if count}


def fill(store: Store, owner: Owner, account_id: str | None) -> None:
    store.diagnoses.add(replace(answer(), owner=owner))
    store.tokens.create(owner, account_id, "ci", ("read",))
    store.submissions.remember(owner, "key", "digest", "d")
    run, _, _ = store.streams.find_run(owner, "llm")
    state = StreamState(run_id=run.id, name="rank_0.log", lines=1, size_bytes=9, kept=1, last_text="bye", last_at=NOON)
    line = StreamLine(run_id=run.id, stream="rank_0.log", number=0, offset=0, at=NOON, text="Killed \N{SNOWMAN}")
    store.streams.write([LogWrite(run_id=run.id, at=NOON, records=1, streams=(state,), lines=(line,), names={b"d" * 16: "h"})])


def test_what_is_too_old_goes_and_the_rest_stays(store: Store) -> None:
    settings = Settings(retention_days=90, anonymous_retention_days=30, stream_retention_days=14)
    now = NOON + timedelta(days=60)
    for owner in (ANNE.owner, GUEST):
        store.diagnoses.add(replace(answer(), owner=owner))
        store.diagnoses.add(replace(answer(minutes=50 * 24 * 60), owner=owner, fingerprint="f2"))
    store.allowances.take("k", NOON.date(), 3)
    store.allowances.take("k", now.date(), 3)
    store.audit.add(AuditLine(at=now - timedelta(days=400), actor="a", action="b", target="c"))
    store.audit.add(AuditLine(at=now, actor="a", action="b", target="c"))
    store.streams.write([LogWrite(run_id=store.streams.find_run(GUEST, "llm")[0].id, at=NOON, records=1, streams=())])
    gone = store.retention.expire(settings, now)
    assert gone == {
        "diagnoses": 1,
        "failures": 1,
        "runs": 1,
        "sessions": 0,
        "invitations": 0,
        "tokens": 0,
        "allowances": 1,
        "submissions": 0,
        "audit": 1,
    }
    assert counts(store) == {"diagnoses": 3, "failures": 3, "allowances": 1, "audit": 1}
    assert store.allowances.left("k", now.date(), 3) == 2


def test_what_ended_by_itself_is_cleared_away(store: Store) -> None:
    anne = store.accounts.create("anne@example.org", "hash", "new")
    day, owner = timedelta(days=1), Owner("account", anne.id)
    for lasts in (day, 3 * day):
        store.sessions.create(anne.id, lasts)
        store.invitations.create(lasts)
        store.tokens.create(owner, anne.id, "ci", ("read",), datetime.now(UTC) + lasts)
    store.tokens.create(owner, anne.id, "for ever", ("read",))
    store.submissions.remember(owner, "key", "digest", "d")
    gone = store.retention.expire(Settings(), datetime.now(UTC) + 2 * day)
    assert {name: count for name, count in gone.items() if count} == {
        "sessions": 1,
        "invitations": 1,
        "tokens": 1,
        "submissions": 1,
    }


def test_without_a_limit_nothing_goes(store: Store) -> None:
    store.diagnoses.add(answer())
    store.retention.expire(Settings(retention_days=None), NOON + timedelta(days=10_000))
    assert len(store.diagnoses.list(ANNE)[0]) == 1


def test_everything_of_an_owner_is_exported_and_nothing_of_others_or_secret(store: Store) -> None:
    anne, ben = (store.accounts.create(f"{name}@example.org", f"argon of {name}", "new") for name in ("anne", "ben"))
    for one in (anne, ben):
        fill(store, Owner("account", one.id), one.id)
        store.sessions.create(one.id, timedelta(days=1), f"browser of {one.id}")
        store.invitations.create(timedelta(days=1), email=f"friend-of-{one.id}@example.org", invited_by=one.id)
        store.audit.add(AuditLine(at=NOON, actor=one.id, action="sign in", target=one.id))
    store.teams.create("pretraining", anne.id)
    found = dict(store.retention.export(Owner("account", anne.id)))
    kinds = {name.rsplit("/", 1)[-1].partition(".")[2] if "/" in name else name for name in found}
    assert kinds >= {"diagnosis.json", "capsule.json", "streams.json", "stream_lines.json"}
    assert kinds >= {"account.json", "sessions.json", "audit.json", "memberships.json", "invitations.json"}
    assert kinds >= {"diagnoses.json", "failures.json", "runs.json", "tokens.json", "submissions.json"}
    text = b" ".join(found.values()).decode()
    assert "\N{SNOWMAN}" in text and "argon" not in text and ben.id not in text and "ben@" not in text
    row = json.loads(found["diagnoses.json"])[0]
    assert row["facts"] == {"trainer.n_gpu": "4"} and row["created_at"] == "2026-03-01T12:00:00Z"


def test_nothing_of_who_is_erased_is_left_and_all_of_the_others(store: Store) -> None:
    fill(store, BEN.owner, None)
    fill(store, Owner("team", "anne"), None)
    before = counts(store)
    fill(store, ANNE.owner, None)
    assert store.retention.erase(ANNE.owner) == 5
    assert counts(store) == before
    assert store.diagnoses.list(ANNE)[0] == [] and len(store.diagnoses.list(BEN)[0]) == 1
    assert len(store.diagnoses.list(person("x", "anne"))[0]) == 1
