"""Truth of events: true if seen, false only if a complete source would show it, unknown otherwise."""

from __future__ import annotations

import pytest

from engine.faults import Log, rank_logs
from engine.runs import CALL, MAIN, crash, known_of, pack_of, told
from firstfault.knowledge.schema import Signal


def signal(event, emitter="torch", id=None):
    return Signal(
        id=id or event,
        event=event,
        role="context",
        fault_class=None,
        literal="literal",
        pattern="x",
        source=f"signals/{emitter}.toml:1",
    )


PACK = pack_of(signals=[signal("torch.note"), signal("kernel.note", "kernel"), signal("elastic.note", "torchelastic")])


def test_seen_on_the_initiating_rank_is_true():
    log = crash(MAIN).note("torch.note")
    known, _ = known_of(log, pack=PACK)
    assert known.value("torch.note") is True
    assert known.span("torch.note") is not None


def test_seen_on_another_rank_is_not_true():
    logs = [crash(MAIN, rank=0), *rank_logs(2)[1:]]
    logs[1].fault("peer_lost").note("torch.note")
    known, _ = known_of(*logs, size=2, pack=PACK)
    assert known.value("torch.note") is not True


def test_launcher_and_kernel_texts_count_from_anywhere():
    logs = [crash(MAIN, rank=0), Log("dmesg", kind="kernel").note("kernel.note"), Log("console").note("elastic.note")]
    known, _ = known_of(*logs, size=1, pack=PACK)
    assert known.value("kernel.note") is True and known.value("elastic.note") is True


def test_false_only_in_a_complete_source():
    known, _ = known_of(crash(MAIN, CALL), pack=PACK)
    assert known.value("torch.note") is False
    assert known.value("kernel.note") is None


@pytest.mark.parametrize("change", [{"whole": False}, {"above": 0}])
def test_unknown_where_something_was_cut(change):
    known, _ = known_of(crash(MAIN, CALL, **change), pack=PACK)
    assert known.value("torch.note") is None


def test_unknown_if_the_log_stops_in_the_middle():
    log = crash(MAIN, CALL)
    log.ends = False
    known, _ = known_of(log, pack=PACK)
    assert known.value("torch.note") is None


def test_name_that_nothing_emits_is_unknown():
    known, _ = known_of(crash(MAIN), pack=PACK)
    assert known.value("no.such") is None


def test_what_was_told_is_known_but_not_read():
    known, _ = known_of(crash(MAIN), pack=PACK, facts=[told("a.b", 3, basis="told"), told("c.d", 4, basis="answered")])
    assert known.value("a.b") == 3 and known.read_only.value("a.b") is None
    assert known.read_only.value("c.d") == 4


def test_a_kernel_speaks_of_its_own_host():
    log = Log("rank-1.log", rank=1, host="node-1").fault("exit_sigkill")
    for host, truth in (("node-2", None), ("node-1", True), (None, True)):
        kernel = Log("dmesg.txt", kind="kernel", host=host).note("kernel.note")
        known, _ = known_of(log, kernel, size=2, pack=PACK)
        assert (known.value("kernel.note") is True) is bool(truth)
