"""Text of strangers: what one database takes and the other refuses is taken by both."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.server.store.store import Store
from server.store.people import ANNE, answer

HOSTILE = "a\0b\ud800c \N{RIGHT-TO-LEFT OVERRIDE}\x1b[31m<script>'; DROP TABLE accounts; --"
STORED = "a\ufffdb?c \N{RIGHT-TO-LEFT OVERRIDE}\x1b[31m<script>'; DROP TABLE accounts; --"


def test_a_title_of_anything_is_kept_and_found(store: Store) -> None:
    made = answer(title=HOSTILE, project=HOSTILE, facts={HOSTILE: HOSTILE}, diagnosis=b"\0\xff")
    store.diagnoses.add(made)
    found = store.diagnoses.get(made.id, ANNE)
    assert found is not None and (found.title, found.diagnosis) == (STORED, b"\0\xff")
    assert [one.id for one in store.diagnoses.list(ANNE, project=HOSTILE)[0]] == [made.id]
    assert store.failures.list(ANNE, project="\0" * 3)[0] == []


def test_what_is_asked_for_may_be_anything(store: Store) -> None:
    assert store.accounts.by_email(HOSTILE) is None
    assert store.sessions.find(HOSTILE.replace("\ud800", "")) is None
    assert store.diagnoses.get(HOSTILE * 100, ANNE) is None
    assert store.failures.get(ANNE.owner, HOSTILE * 100) is None
    assert store.submissions.find(ANNE.owner, HOSTILE * 100) is None
    assert store.audit.list(actor=HOSTILE) == []


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(key=st.text(max_size=200))
def test_a_key_is_remembered_whatever_is_in_it(store: Store, key: str) -> None:
    store.submissions.forget(ANNE.owner, key)
    assert store.submissions.remember(ANNE.owner, key, "digest", "d1")
    assert not store.submissions.remember(ANNE.owner, key, "digest", "d2")
    assert store.submissions.find(ANNE.owner, key) == ("digest", "d1")
