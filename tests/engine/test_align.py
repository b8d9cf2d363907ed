"""Ranks, hosts, clocks and exits of a bundle brought together."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log, aligned, attributed, clock, world
from firstfault.engine.align import align
from firstfault.engine.clocks import Clocks
from firstfault.engine.rank_map import bus_key, read_rank_map
from firstfault.model.bundle import Bundle
from firstfault.model.event import Clock, Place


def test_local_rank_is_the_rank_on_one_node():
    console = Log("console.log").exit(1, local_rank=2, pid=12)
    assert aligned(4, console).exits[0].place.rank == 2


def test_local_rank_needs_the_node_on_several():
    block = Log("a.log").exit(1, rank=8, local_rank=0, pid=1, host="b").exit(1, rank=0, local_rank=0, pid=1, host="a")
    line = Log("b.log", host="b").exit(1, local_rank=3, pid=99)
    unknown = Log("c.log").exit(1, local_rank=3, pid=98)
    ranks = {found.place.pid: found.place.rank for found in aligned(16, block, line, unknown).exits}
    assert ranks[99] == 11 and ranks[98] is None


def test_pid_names_the_rank_of_a_launchers_line():
    console = Log("console.log").exit(-15, pid=24581, told=True).exit(-15, rank=1, local_rank=1, pid=24581)
    told = next(e for e in aligned(2, console).events if e.fault_class == "launcher_sigterm")
    assert told.place.rank == 1


def test_pid_on_two_hosts_is_not_mixed_up():
    logs = [Log("a.log", host="a").exit(1, rank=0, pid=7), Log("b.log", host="b").exit(1, rank=8, pid=7)]
    ranks = read_rank_map(world(16, *logs))
    assert (ranks.rank_of_pid(7, "a"), ranks.rank_of_pid(7, "b"), ranks.rank_of_pid(7)) == (0, 8, None)


def test_only_host_is_everybodys_host():
    logs = [Log("rank-0.log", rank=0, host="node-1").fault("device_oom"), Log("dmesg.txt", kind="kernel").fault("gpu_xid")]
    assert {event.place.host for event in aligned(1, *logs).events} == {"node-1"}


@pytest.mark.parametrize("text", ["0000:98:00", "PCI:0000:98:00", "0000:98:00.0", "98000", "00000000:98:00.0"])
def test_bus_spellings(text):
    assert bus_key(text) == "0:98:0"


def test_world_size_is_never_below_a_rank_that_was_seen():
    assert aligned(2, Log("rank-7.log", rank=7).fault("device_oom")).world_size == 8
    assert aligned(None, Log("rank-7.log", rank=7).fault("device_oom")).world_size is None


def test_traceback_cut_above_its_exception_becomes_an_event():
    log = Log("a.log").raises("KeyError: 'x'")
    report = log.report()
    root = msgspec.structs.replace(report.tracebacks[0].root, type="", message="", whole=False)
    cut = msgspec.structs.replace(report.tracebacks[0], blocks=(root,))
    bundle = Bundle(reports=(msgspec.structs.replace(report, events=(), tracebacks=(cut,)),))
    (event,) = align(bundle).events
    assert (event.name, event.text, event.traceback) == ("python.exception", 'File "train.py", line 7, in main', 0)


def test_exit_code_zero_is_no_event():
    assert aligned(1, Log("a.log").exit(0, rank=0)).events == ()


def test_times_are_compared_on_one_host_only():
    a, b = Place(host="a", time=clock(10)), Place(host="b", time=clock(12))
    assert Clocks().delay(a, b) is None
    known = Clocks({"a": (0.0, 1.0), "b": (5.0, 1.0)}).delay(a, b)
    assert known is not None and known.seconds == 7.0 and known.error_s > 2.0
    assert Clocks().delay(a, Place(host="a", time=clock(12))).seconds == 2.0
    assert Clocks().delay(a, Place(host="a", time=clock(12, "boot"))) is None


def test_times_without_year_or_date_are_compared_where_they_can_be():
    wall = Clock(1764529384.0, "wall", 0.001, "2025-11-30 19:03:04")
    yearless = Clock((334 - 30 + 29) * 86400.0 + 19 * 3600 + 190.0, "yearless", 0.001, "1130 19:03:10")
    daytime = Clock(19 * 3600 + 200.0, "daytime", 1.0, "19:03:20")
    assert Clocks().delay(Place(time=wall), Place(time=yearless)).seconds == pytest.approx(6.0)
    assert Clocks().delay(Place(time=wall), Place(time=daytime)).seconds == pytest.approx(16.0)


def test_epoch_seconds_and_local_time_differ_by_the_zone():
    epoch = Clock(1764529384.0, "wall", 1.0, "1764529384")
    local = Clock(1764529384.0 + 3 * 3600 + 4.0, "wall", 0.001, "2025-11-30 22:03:08")
    assert Clocks().delay(Place(time=epoch), Place(time=local)).seconds == pytest.approx(4.0)


def timed_out(rank, host, at, seq):
    log = Log(f"rank-{rank}.log", rank=rank, host=host)
    return log.fault("collective_timeout", at=at, ran_for=600.0, seq=seq, op="ALLREDUCE")


def test_offset_between_hosts_follows_from_one_collective():
    offsets = aligned(4, timed_out(0, "a", 1000, 5), timed_out(2, "b", 813, 5)).clocks.offsets
    assert offsets["b"][0] - offsets["a"][0] == 187.0


def test_offset_decides_whether_an_error_came_before_the_wait():
    error = Log("rank-2.log", rank=2, host="b").fault("cuda_error", at=205)
    logs = [timed_out(0, "a", 1000, 5), timed_out(3, "b", 813, 5)]
    found = attributed(4, *logs, error)
    # 205 on host b is 392 on host a, where the wait began at 400.
    rule = next(one.rule for one in found.collateral if one.event.place.rank == 0)
    assert found.rank == 2 and "10 min earlier" in rule


def test_error_after_the_wait_began_is_not_what_was_waited_for():
    error = Log("rank-1.log", rank=1, host="a").fault("cuda_error", at=900)
    found = attributed(2, timed_out(0, "a", 1000, 5), error)
    assert not any("earlier" in one.rule for one in found.collateral)


def test_log_in_which_one_rank_labels_its_lines_is_that_ranks():
    logs = [Log(f"worker-{rank}.log").fault("peer_lost", rank=rank).fault("native_signal") for rank in (0, 1)]
    assert [event.place.rank for event in aligned(2, *logs).events] == [0, 0, 1, 1]
    alone = Log("console.log").fault("peer_lost", rank=0).fault("native_signal")
    assert [event.place.rank for event in aligned(2, alone).events] == [0, None]
    named = Log("rank-0.log", rank=0).fault("peer_lost")
    other = Log("console-2.log").fault("peer_lost", rank=1)
    assert [event.place.rank for event in aligned(2, alone, other, named).events][:2] == [0, None]


def test_container_end_belongs_to_the_rank_of_its_host():
    log = Log("worker-2.log", host="worker-2").note("nccl.communicator", rank=2)
    pod = Log("describe.txt", host="worker-2", kind="kubernetes").exit(-9, reporter="kubernetes")
    assert [e.place.rank for e in aligned(3, log, pod).events if e.fault_class] == [2]


def test_deepspeed_signals_its_processes_in_the_order_of_their_ranks():
    console = Log("console.log")
    for pid in (50010, 50011, 50012):
        console.exit(None, pid=pid, told=True, reporter="deepspeed")
    assert aligned(None, console).rank_map.rank_of_pid(50012) == 2


def test_launchers_account_counts_the_processes():
    console = Log("console.log").exit(-15, pid=10, told=True).exit(-15, pid=11, told=True).exit(1, rank=0, pid=12)
    assert aligned(None, console).world_size == 3
    assert aligned(None, console, Log("node-2.log").note("launcher.restarts_workers")).world_size is None
    console.note("launcher.restarts_workers")
    console.exit(-15, pid=20, told=True).exit(-15, pid=21, told=True).exit(1, rank=2, pid=22)
    assert aligned(None, console).world_size == 3


def test_an_ignored_traceback_that_was_cut_raises_nothing():
    log = Log("run.log").raises("OSError: handle")
    cut = msgspec.structs.replace(log.tracebacks[0].root, type="")
    log.events.clear()
    for ignored, count in ((True, 0), (False, 1)):
        log.tracebacks[0] = msgspec.structs.replace(log.tracebacks[0], blocks=(cut,), ignored=ignored)
        assert len(aligned(1, log).events) == count


def test_an_absurd_rank_counts_no_world():
    assert aligned(2, Log("a.log", rank=1).fault("device_oom"), Log("b.log", rank=10**9).fault("device_oom")).world_size == 2


def test_console_named_after_its_node_and_the_full_name_in_its_report_are_one_host():
    first = Log("node-1.log", host="node-1").exit(1, rank=2, local_rank=0, pid=7, host="node-1.cluster.example")
    first.exit(-15, pid=8, told=True, host="node-1")
    assert {found.place.host for found in aligned(4, first).exits} == {"node-1"}
    both = Log("all.log").exit(1, rank=2, local_rank=0, pid=7, host="a").exit(1, rank=4, local_rank=0, pid=9, host="b")
    assert {found.place.host for found in aligned(8, both).exits} == {"a", "b"}
