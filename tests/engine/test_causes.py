"""The rows of the causal table held against faults: chains, cycles, and the table itself."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.faults import Log, attributed, causal, rank_logs

CLASSES = [spec.id for spec in causal().classes if spec.prior != "context"]


def test_any_fatal_is_every_class_that_can_start_a_failure():
    starts = {spec.id for spec in causal().classes if spec.prior in ("initiating", "either")}
    assert set(causal().groups["any_fatal"]) == starts


def test_chain_of_explanations_is_followed_to_its_end():
    console = Log("console.log").exit(-9, rank=2, pid=12).exit(-15, rank=0, pid=10, told=True).exit(-15, rank=0, pid=10)
    kernel = Log("dmesg.txt", kind="kernel").fault("host_oom_kill", pid=12)
    found = attributed(3, console, kernel, Log("rank-1.log", rank=1).fault("peer_lost"))
    # Killed by the kernel -> exit code -9 -> the launcher stops rank 0 -> its exit code -15.
    assert {one.by.fault_class for one in found.collateral} == {"host_oom_kill"}


def test_cycle_is_cut_at_the_more_initiating_class():
    logs = rank_logs(2)
    logs[0].fault("peer_lost")
    logs[1].fault("exit_sighup")
    found = attributed(2, *logs)
    assert (found.fault_class, found.rank) == ("exit_sighup", 1)


def test_message_that_was_cut_off_does_not_explain_the_whole_one():
    whole = "DistBackendError: NCCL error, invalid usage Last error: Duplicate GPU detected"
    logs = rank_logs(2)
    logs[0].raises(whole[:40], fault_class="nccl_error")
    logs[1].raises(whole, fault_class="nccl_error")
    found = attributed(2, *logs)
    assert (found.rank, found.ranks, found.certainty) == (None, (0, 1), "undetermined")
    logs = rank_logs(2)
    logs[0].raises(whole, fault_class="nccl_error")
    logs[1].fault("nccl_error", "[rank1]: " + whole)
    found = attributed(2, *logs)
    assert (found.rank, found.ranks, found.certainty) == (None, (0, 1), "undetermined")
    logs = rank_logs(2)
    logs[0].raises("DistBackendError: NCCL error, unhandled cuda error", fault_class="nccl_error")
    logs[1].raises("DistBackendError: NCCL error, remote process exited", fault_class="nccl_error")
    assert len(attributed(2, *logs).collateral) == 1


def test_fatal_events_that_only_quote_are_left_out():
    log = Log("paste.txt", kind="prose").fault("device_oom")
    log.events[0] = msgspec.structs.replace(log.events[0], quoted=True)
    assert attributed(None, log).fault_class == "none"


events = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.sampled_from([None, 0, 1, 2]), st.sampled_from([None, 10, 500])), max_size=8
)


@settings(max_examples=60, deadline=None)
@given(st.lists(events, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_order_of_the_sources_does_not_matter_and_nothing_is_explained_by_itself(sources, random):
    logs = []
    for number, found in enumerate(sources):
        log = Log(f"log-{number}.txt", host="a")
        for fault_class, rank, at in found:
            log.fault(fault_class, f"{fault_class} on {rank} in {number}", rank=rank, at=at)
        logs.append(log)
    first = attributed(3, *logs)
    random.shuffle(logs)
    second = attributed(3, *logs)
    assert (first.fault_class, first.certainty, first.relation) == (second.fault_class, second.certainty, second.relation)
    assert all(one.event is not one.by for one in first.collateral)
    if first.certainty == "established" and first.rank is not None:
        assert first.rank == second.rank
