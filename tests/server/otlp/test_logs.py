"""A run that was deleted while its records came in is made anew."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from firstfault.knowledge.pack import load_pack
from firstfault.server.otlp.logs import Logs
from firstfault.server.records import Owner, Principal
from firstfault.server.store.store import open_store
from server.otlp.test_receive import group

OWNER = Owner("account", "a1")
ASKS = Principal(owner=OWNER, owners=(OWNER,))


def test_after_one_refusal_a_deleted_run_is_made_anew(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'console.db'}")
    logs = Logs(load_pack(), store, None)  # type: ignore[arg-type]
    logs.take(OWNER, [group(["epoch 1"])]).result(30)
    assert store.retention.erase(OWNER) == 1
    with pytest.raises(IntegrityError):
        logs.take(OWNER, [group(["epoch 2"])]).result(30)
    logs.take(OWNER, [group(["epoch 3"])]).result(30)
    run = store.streams.runs(ASKS)[0]
    assert [state.last_text for state in store.streams.states(run.id)] == ["epoch 3"]
    logs.close()
    store.close()
