"""Whose pending call differs: by sequence number, and by the stacks of all ranks."""

from __future__ import annotations

import pytest

from engine.faults import Log, rank_logs
from engine.last_words import waiting
from engine.runs import facts_of

C10D = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
SAME = {"seq": 12, "op": "ALLREDUCE", "numel_in": 64, "numel_out": 64}


def watchdogs(size, odd=None, group="0(default_pg)", **other):
    logs = waiting(size - 1, **SAME) if odd is None else waiting(size, without=(odd,), **SAME)
    if odd is not None:
        logs[odd].fault("collective_timeout", name="collective.timeout", at=1000, ran_for=600.0, **(SAME | other))
    for log in logs:
        text = (
            f"[PG ID 0 PG GUID {group} Rank {log.place.rank}] Timeout at NCCL work: 12" if group else "Timeout at NCCL work: 12"
        )
        log.fault(None, text, name="collective.counters", work=12, enqueued=13, completed=11)
    return logs


def test_other_size_at_one_sequence_number():
    found = facts_of(*watchdogs(4, odd=3, numel_in=32), size=4)
    assert (found.value("collective.shape_differs"), found.value("collective.op_differs")) == (True, False)
    assert found.value("collective.minority_rank") == 3 and found.value("collective.all_equal") is False
    assert [span.source for span in found["collective.shape_differs"].spans] == ["rank-3.log", "rank-0.log"]
    assert found.value("collective.suspect_kind") == "divergent"


def test_other_operation_at_one_sequence_number():
    found = facts_of(*watchdogs(3, odd=0, op="BROADCAST", numel_in=1), size=3)
    assert found.value("collective.op_differs") is True and "collective.shape_differs" not in found


def test_two_ranks_that_differ_have_no_minority():
    found = facts_of(*watchdogs(2, odd=0, numel_in=1), size=2)
    assert found.value("collective.shape_differs") is True and "collective.minority_rank" not in found


@pytest.mark.parametrize("op", ["ALLTOALL_BASE", "SEND"])
def test_operations_whose_sizes_may_differ(op):
    logs = waiting(2, seq=5, op=op, numel_in=4, numel_out=4)
    logs += waiting(3, without=(0, 1), seq=5, op=op, numel_in=9, numel_out=4)[2:]
    assert facts_of(*logs, size=3).value("collective.shape_differs") is None


def test_other_sequence_numbers_and_groups_are_not_compared():
    assert facts_of(*watchdogs(3, odd=1, seq=11, numel_in=1), size=3).value("collective.shape_differs") is None
    unnamed = watchdogs(3, odd=1, group=None, numel_in=1)
    assert facts_of(*unnamed, size=3).value("collective.shape_differs") is True
    assert facts_of(*unnamed, size=8).value("collective.shape_differs") is None


def test_all_ranks_in_one_operation():
    found = facts_of(*watchdogs(4), size=3)
    assert found.value("collective.all_equal") is True and found.value("collective.shape_differs") is False
    assert facts_of(*watchdogs(4), size=4).value("collective.all_equal") is None


def test_a_group_that_had_completed_something_is_past_its_first_collective():
    assert facts_of(*watchdogs(3), size=3).value("collective.is_first") is False


def stacks(*calls):
    """One rank a call; `-` before the function: the rank found a peer gone instead of waiting out its limit."""
    logs = rank_logs(len(calls))
    for log, call in zip(logs, calls, strict=True):
        fault_class = "peer_lost" if call.startswith("-") else "collective_timeout"
        log.raises("RuntimeError: Timed out", path=C10D, function=call.lstrip("-"), fault_class=fault_class)
    return logs


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        (("-all_reduce", "all_reduce", "broadcast"), True),
        (("all_reduce", "all_reduce", "barrier"), True),
        (("all_reduce", "all_reduce", "all_reduce"), False),
        # The root had sent its part and gone on; the last rank came late and found the others gone.
        (("all_reduce", "all_reduce", "-broadcast"), None),
        (("gather", "all_reduce", "-gather"), None),
        (("monitored_barrier", "all_reduce", "all_reduce"), None),
    ],
)
def test_stacks_of_all_ranks(calls, expected):
    found = facts_of(*stacks(*calls), size=3)
    assert found.value("collective.op_differs") is expected
    assert found.value("collective.minority_rank") == (2 if expected else None)


def test_stacks_of_some_ranks_say_nothing():
    assert facts_of(*stacks("all_reduce", "barrier"), size=3).value("collective.op_differs") is None


def test_ranks_that_name_one_closed_address():
    logs = [Log(f"rank-{rank}.log", rank=rank) for rank in range(3)]
    for log, peer in zip(logs, ("[10.0.0.2]:4", "[10.0.0.2]:4", "[10.0.0.2]:9"), strict=True):
        log.fault("peer_lost", name="peer.gloo", peer=peer)
    assert facts_of(*logs, size=4).value("peer.same_address_votes") == 2
