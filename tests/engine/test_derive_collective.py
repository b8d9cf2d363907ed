"""The rank that did not arrive: how it differs, whether it lived, what it was doing."""

from __future__ import annotations

import pytest

from engine.faults import Log, aligned
from engine.last_words import waiting, working
from engine.runs import facts_of
from firstfault.engine.derive import collective
from firstfault.engine.evidence import EvidenceBook

COUNTERS = "[PG ID 0 PG GUID 0(default_pg) Rank 0] Timeout at NCCL work"
C10D = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def values(found):
    return {name: found.value(name) for name in collective.PRODUCES if name in found}


def test_rank_that_prints_while_the_others_wait_has_not_entered_and_lives():
    logs = waiting(3, without=(0,))
    logs[0].says("writing model.pt: 61 of 188 GiB", at=900)
    found = facts_of(*logs, size=3)
    assert found.value("collective.suspect_kind") == "never_entered"
    assert found.value("collective.suspect_alive") is True
    assert found.value("collective.suspect_activity") == "save"
    assert found["collective.suspect_kind"].spans[0].source == "rank-0.log"


@pytest.mark.parametrize("at", [None, 300, 401])
def test_line_at_the_start_of_the_wait_proves_nothing(at):
    logs = waiting(3, without=(0,))
    logs[0].says("step 30", at=at)
    assert values(facts_of(*logs, size=3)) == {"collective.suspect_activity": "train"}


def test_wait_without_a_time_ended_before_its_process_did():
    logs = waiting(3, without=(1,), at=None)
    logs[1].says("row group 7: 1.2 GiB read", at=950)
    assert values(facts_of(*logs, size=3)) == {"collective.suspect_activity": "read"}
    console = Log("console.log").exit(1, rank=0, at=1001).exit(1, rank=2, at=1001)
    found = facts_of(*logs, console, size=3)
    assert found.value("collective.suspect_kind") == "never_entered" and found.value("collective.suspect_alive") is True


def test_rank_that_the_launcher_had_to_stop_lived_but_may_have_waited():
    logs = waiting(3, without=(2,))
    console = Log("console.log").exit(-15, rank=2, pid=12, told=True).exit(1, rank=0).exit(1, rank=1).exit(-15, rank=2, pid=12)
    assert values(facts_of(*logs, console, size=3)) == {"collective.suspect_alive": True}


def test_launcher_that_stops_every_process_shows_nobody_alive():
    logs = waiting(3, without=(2,))
    console = Log("console.log").exit(None, rank=2, pid=12, told=True, reporter="deepspeed")
    assert "collective.suspect_alive" not in facts_of(*logs, console, size=3)


def test_stack_on_which_a_rank_was_stopped_says_what_it_did():
    for path, function, expected in (
        ("/v/lib/python3.11/site-packages/torch/serialization.py", "save", {"collective.suspect_activity": "save"}),
        (C10D, "all_reduce", {"collective.suspect_activity": "collective"}),
    ):
        logs = waiting(3, without=(2,))
        logs[2].raises("SignalException: Process 12 got signal: 15", path=path, function=function, fault_class="exit_sigterm")
        found = values(facts_of(*logs, size=3))
        kind = {"collective.suspect_kind": "never_entered"} if function == "save" else {}
        assert found == {**kind, **expected}


def test_counters_show_who_had_nothing_pending_who_is_behind_and_whose_gpu_stands():
    logs = waiting(3, without=(2,))
    logs[2].fault("nccl_abort_note", name="collective.dump_signal", enqueued=11, completed=11)
    found = facts_of(*logs, size=3)
    assert (found.value("collective.suspect_kind"), found.value("collective.suspect_alive")) == ("never_entered", True)
    for own, kind in (((11, 11, 10), "behind"), ((12, 14, 8), "gpu_stalled"), ((12, 13, 11), None)):
        logs = waiting(3, without=(2,))
        for log in logs:
            work, enqueued, completed = own if log.place.rank == 2 else (12, 13, 11)
            label = COUNTERS.replace("Rank 0", f"Rank {log.place.rank}")
            log.fault(None, label, name="collective.counters", work=work, enqueued=enqueued, completed=completed)
        assert facts_of(*logs, size=3).value("collective.suspect_kind") == kind


def test_nothing_is_said_of_a_rank_where_several_are_silent():
    logs = waiting(4, without=(0, 1))
    logs[0].says("saving checkpoint")
    assert values(facts_of(*logs, size=4)) == {}


def test_rank_that_left_with_zero_before_the_others():
    logs = waiting(3, without=(1,))
    console = Log("console.log").exit(-15, rank=2, pid=12, told=True).exit(1, rank=0, pid=10).exit(-15, rank=2, pid=12)
    found = facts_of(*logs, console, size=3)
    assert found.value("exit.zero_before_peers") is True and found.value("collective.suspect_kind") == "exited_zero"
    assert "exit.zero_before_peers" not in facts_of(*waiting(3), size=3)


@pytest.mark.parametrize(("function", "expected"), [("generate", True), ("train", False)])
def test_call_inside_generate(function, expected):
    logs = working(2)
    for log in logs:
        log.raises("RuntimeError: Timed out", path=C10D, function="all_gather_into_tensor", fault_class="collective_timeout")
    if function == "generate":
        logs[1].raises("RuntimeError: Timed out", path="/v/model.py", function=function, fault_class="collective_timeout")
    found = facts_of(*logs, size=2)
    assert found.value("collective.in_generate") is expected
    assert "collective.in_generate" not in facts_of(*waiting(2), size=2)


def test_all_ranks_in_one_operation_point_at_the_fabric():
    logs = waiting(3, seq=12, op="ALLREDUCE", numel_in=4, numel_out=4)
    assert facts_of(*logs, size=3).value("collective.suspect_kind") == "fabric"


def test_line_of_the_late_rank_can_be_shown():
    logs = waiting(3, without=(0,))
    logs[0].says("writing model.pt: 61 of 188 GiB", at=900).says("", at=910)
    book = EvidenceBook(aligned(3, *logs))
    book.cite(facts_of(*logs, size=3)["collective.suspect_activity"].spans)
    assert [one.text for one in book.entries()] == ["writing model.pt: 61 of 188 GiB"]
