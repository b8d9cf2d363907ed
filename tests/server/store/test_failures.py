"""The same failure again: counted, and back after it was said to be fixed."""

from __future__ import annotations

from firstfault.server.store.store import Store
from server.store.people import ANNE, BEN, NOON, answer


def test_a_failure_is_counted_once_for_each_run(store: Store) -> None:
    first, second = answer(), answer(minutes=5)
    store.diagnoses.add(first)
    store.diagnoses.add(second)
    store.diagnoses.add(answer(minutes=6, follows=second.id))
    store.diagnoses.add(answer(BEN))
    failure = store.failures.get(ANNE.owner, "f1")
    assert failure is not None
    assert (failure.count, failure.state, failure.first_seen_at) == (2, "open", NOON)


def test_what_was_fixed_comes_back(store: Store) -> None:
    store.diagnoses.add(answer())
    for done in ("fixed", "verified"):
        assert store.failures.set_state(ANNE.owner, "f1", done)
        failure = store.failures.get(ANNE.owner, "f1")
        assert failure is not None and failure.state == done and failure.fixed_at is not None
        store.diagnoses.add(answer(minutes=9))
        failure = store.failures.get(ANNE.owner, "f1")
        assert failure is not None and failure.state == "came back"


def test_lists_go_on_and_are_filtered(store: Store) -> None:
    for number in range(5):
        store.diagnoses.add(answer(minutes=number, fingerprint=f"f{number}", project="llm" if number else ""))
    first, page = store.failures.list(ANNE, limit=3)
    rest, end = store.failures.list(ANNE, limit=3, after=page.after)
    assert [one.fingerprint for one in (*first, *rest)] == ["f4", "f3", "f2", "f1", "f0"]
    assert end.after is None
    assert [one.fingerprint for one in store.failures.list(ANNE, project="")[0]] == ["f0"]
