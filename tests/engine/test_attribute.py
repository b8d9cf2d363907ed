"""One test for each family of rows of the causal table."""

from __future__ import annotations

import pytest

from engine.faults import Log, attributed, rank_logs

LOST = "RuntimeError: Connection closed by peer [127.0.0.1]:4000"


def collateral_ranks(attribution):
    return sorted({one.event.place.rank for one in attribution.collateral if one.event.place.rank is not None})


def test_own_exception_explains_the_peers_it_left():
    logs = rank_logs(4)
    for log in logs:
        log.steps(3)
        if log.place.rank == 2:
            log.raises("TypeError: object of type 'NoneType' has no len()")
        else:
            log.fault("peer_lost", LOST)
    found = attributed(4, *logs)
    assert (found.fault_class, found.rank, found.certainty) == ("python_exception", 2, "established")
    assert collateral_ranks(found) == [0, 1, 3]
    assert all("rank 2 raised an exception" in one.rule for one in found.collateral)
    assert found.relation == "one" and found.ranks == (2,) and found.symmetric is False


def test_first_error_of_a_rank_explains_its_later_ones():
    log = Log("rank-0.log", rank=0).fault("device_oom").fault("nccl_error").fault("native_signal")
    found = attributed(1, log)
    assert found.fault_class == "device_oom"
    assert [one.event.name for one in found.collateral] == ["nccl_error", "native_signal"]


def test_chain_root_that_is_a_lost_peer_is_no_own_exception():
    logs = rank_logs(3)
    logs[0].fault("peer_lost", LOST).raises("KeyError: 'checkpoint'")
    logs[1].fault("peer_lost", LOST)
    logs[2].steps(5)
    found = attributed(3, *logs)
    assert (found.fault_class, found.rank, found.certainty, found.suspects) == ("peer_lost", 2, "likely", (2,))


def test_exception_type_gives_the_class():
    assert attributed(1, Log("a.log").raises("ModuleNotFoundError: No module named 'apex'")).fault_class == "import_error"
    assert attributed(1, Log("a.log").raises("torch.OutOfMemoryError: no")).fault_class == "device_oom"
    assert attributed(1, Log("a.log").raises("ray.exceptions.OutOfMemoryError: no")).fault_class == "host_oom_kill"


def test_exception_of_the_launcher_itself():
    log = Log("a.log").raises("ValueError: bad", path="/v/site-packages/accelerate/commands/launch.py")
    assert attributed(None, log).fault_class == "launcher_exception"


def test_device_assert_explains_the_cuda_error_behind_it():
    log = Log("rank-1.log", rank=1).fault("device_assert").fault("cuda_error").fault("nccl_abort_note")
    found = attributed(2, log, Log("rank-0.log", rank=0).fault("peer_lost"))
    assert (found.fault_class, found.rank) == ("device_assert", 1)


def test_oom_killer_names_the_rank_by_pid():
    console = Log("console.log").exit(-9, rank=7, pid=50017).exit(-15, rank=0, pid=50010, told=True)
    kernel = Log("dmesg.txt", kind="kernel").fault("host_oom_kill", at=100, kind="boot", pid=50017)
    found = attributed(8, console, kernel)
    assert (found.fault_class, found.rank) == ("host_oom_kill", 7)
    assert any(one.event.place.rank == 7 for one in found.collateral)


def test_oom_kill_of_another_process_does_not_explain():
    console = Log("console.log").exit(-9, rank=7, pid=50017).exit(-15, rank=0, pid=50010, told=True)
    kernel = Log("dmesg.txt", kind="kernel").fault("host_oom_kill", at=100, kind="boot", pid=999)
    found = attributed(8, console, kernel)
    assert not any(one.event.place.rank == 7 for one in found.collateral)


def test_oom_kill_on_the_host_of_the_only_silent_rank():
    logs = [Log(f"worker-{rank}.log", rank=rank, host=f"worker-{rank}") for rank in range(3)]
    logs[0].fault("peer_lost")
    logs[1].fault("peer_lost")
    logs[2].steps(9)
    pod = Log("describe.txt", host="worker-2", kind="kubernetes").fault("host_oom_kill", "Reason: OOMKilled")
    found = attributed(3, *logs, pod)
    assert (found.fault_class, found.rank, found.host) == ("host_oom_kill", 2, "worker-2")


def test_xid_and_cuda_error_on_one_gpu():
    rank3 = Log("rank-3.log", rank=3, host="node-1").note("nccl.init", bus="98000").fault("cuda_error")
    rank0 = Log("rank-0.log", rank=0, host="node-1").fault("collective_timeout")
    kernel = Log("dmesg.txt", host="node-1", kind="kernel").fault("gpu_xid", kind="boot", at=5, bus="0000:98:00", xid=79)
    found = attributed(4, rank3, rank0, kernel)
    assert (found.fault_class, found.rank) == ("gpu_xid", 3)
    other = Log("dmesg.txt", host="node-1", kind="kernel").fault("gpu_xid", kind="boot", at=5, bus="0000:3b:00", xid=79)
    assert attributed(4, rank3.note("nccl.init", rank=2, bus="3b000"), rank0, other).rank != 3


def test_application_xid_is_the_shadow_of_the_cuda_error():
    log = Log("console.log").fault("cuda_error", rank=5).exit(-6, rank=5, pid=7815)
    kernel = Log("dmesg.txt", kind="kernel").fault("gpu_xid_application", kind="boot", at=5, bus="0000:9b:00", pid=7815)
    kernel.fault("gpu_xid_cleanup", kind="boot", at=6, bus="0000:9b:00", pid=7815)
    found = attributed(8, log, kernel)
    assert (found.fault_class, found.rank) == ("cuda_error", 5)
    assert {one.event.name for one in found.collateral} >= {"gpu_xid_application", "gpu_xid_cleanup"}


def test_signal_exit_that_the_launcher_did_not_send():
    console = Log("console.log")
    for rank in (0, 1, 3):
        console.exit(-15, rank=rank, pid=100 + rank, told=True)
    console.exit(-9, rank=2, pid=102)
    for rank in (0, 1, 3):
        console.exit(-15, rank=rank, pid=100 + rank)
    found = attributed(4, console)
    assert (found.fault_class, found.rank, found.certainty) == ("exit_sigkill", 2, "established")


@pytest.mark.parametrize(("code", "fault_class"), [(-6, "native_signal"), (-11, "native_signal"), (-1, "exit_sighup")])
def test_exit_codes_become_classes(code, fault_class):
    console = Log("console.log").exit(code, rank=1, pid=11).exit(-15, rank=0, pid=10, told=True)
    found = attributed(2, console, Log("rank-0.log", rank=0).fault("peer_lost"))
    assert (found.fault_class, found.rank) == (fault_class, 1)


def test_sigterm_from_outside_has_no_launcher_line():
    console = Log("console.log").exit(-15, rank=0, pid=10, told=True).exit(-15, rank=1, pid=11).exit(-15, rank=0, pid=10)
    found = attributed(2, console, Log("rank-0.log", rank=0).fault("peer_lost"))
    assert (found.fault_class, found.rank) == ("exit_sigterm", 1)


def test_sigterm_without_any_launcher_line_was_the_launchers_if_another_rank_failed():
    console = Log("console.log").exit(1, rank=0).exit(-15, rank=1).exit(1, rank=2)
    logs = [Log(f"rank-{rank}.log", rank=rank).fault("collective_timeout") for rank in (0, 2)]
    found = attributed(3, console, *logs)
    assert (found.fault_class, found.rank, found.certainty) == ("collective_timeout", 1, "likely")


def test_rank_that_left_with_code_zero_while_the_others_trained():
    console = Log("console.log").exit(-15, rank=0, pid=10, told=True).exit(1, rank=1, pid=11).exit(1, rank=3, pid=13)
    logs = [Log(f"rank-{rank}.log", rank=rank).fault("collective_timeout") for rank in (0, 1, 3)]
    found = attributed(4, console, *logs)
    assert (found.fault_class, found.rank) == ("exit_zero_early", 2)


def test_incomplete_account_of_the_launcher_says_nothing_about_missing_ranks():
    console = Log("console.log").exit(1, rank=1, pid=11)
    assert attributed(8, console, Log("rank-1.log", rank=1).fault("peer_lost")).fault_class == "peer_lost"


def test_timeouts_and_lost_peers_follow_an_error_that_began_before_the_wait():
    log0 = Log("rank-0.log", rank=0, host="a").fault("collective_timeout", at=1000, ran_for=600.0)
    log1 = Log("rank-1.log", rank=1, host="a").fault("device_oom", at=395)
    found = attributed(2, log0, log1)
    assert found.rank == 1 and "10 min earlier" in found.collateral[0].rule


def test_collective_mismatch_aborts_its_own_rank():
    logs = rank_logs(3)
    logs[2].fault("collective_mismatch", "op.preamble.length <= op.nbytes. 64 vs 40")
    logs[0].fault("peer_lost")
    logs[1].fault("peer_lost")
    console = Log("console.log").exit(-6, rank=2, pid=12).exit(-15, rank=0, pid=10, told=True)
    found = attributed(3, *logs, console)
    assert (found.fault_class, found.rank) == ("collective_mismatch", 2)


def test_scheduler_stop_explains_all_ranks():
    log = Log("slurm.out").steps(9).fault("scheduler_stop", at=100)
    for rank in range(4):
        log.fault("keyboard_interrupt", rank=rank)
    found = attributed(4, log)
    assert (found.fault_class, found.rank, found.certainty) == ("scheduler_stop", None, "established")
    assert collateral_ranks(found) == [0, 1, 2, 3]
    assert all(one.rule.startswith("the scheduler stopped the job") for one in found.collateral)


def test_failure_well_before_the_scheduler_stop_is_not_explained_by_it():
    log = Log("slurm.out").fault("device_oom", rank=3, at=100).fault("scheduler_stop", at=900)
    found = attributed(4, log)
    assert (found.fault_class, found.rank) == ("device_oom", 3)


def test_interrupt_by_hand_names_no_rank():
    log = Log("console.log").fault("keyboard_interrupt", rank=0)
    for rank in (1, 2, 3):
        log.fault("peer_lost", rank=rank)
    found = attributed(4, log)
    assert (found.fault_class, found.rank) == ("keyboard_interrupt", None)
    assert collateral_ranks(found) == [1, 2, 3]


def test_launcher_report_alone_is_a_consequence():
    console = Log("console.log").exit(1, rank=0, pid=1).exit(1, rank=1, pid=2)
    found = attributed(None, console)
    assert (found.fault_class, found.rank, found.certainty) == ("launcher_report", None, "undetermined")


def test_tracker_error_explains_the_timeouts():
    logs = rank_logs(3)
    logs[1].fault("tracker_error")
    logs[0].fault("collective_timeout")
    logs[2].fault("collective_timeout")
    assert attributed(3, *logs).rank == 1


def test_kernel_line_and_signal_exit_are_one_event():
    console = Log("console.log").exit(-11, rank=2, pid=77).exit(-15, rank=0, pid=70, told=True)
    kernel = Log("dmesg.txt", kind="kernel").fault("native_signal", "python[77]: segfault at 0", kind="boot", at=3, pid=77)
    found = attributed(3, console, kernel)
    assert (found.fault_class, found.rank) == ("native_signal", 2)
    alone = attributed(None, Log("dmesg.txt", kind="kernel").fault("native_signal", "python[5]: segfault", pid=5))
    assert alone.fault_class == "native_signal"


def test_last_rank_of_deepspeeds_command_is_not_the_failing_rank():
    console = Log("console.log").exit(-9, rank=7, reporter="deepspeed")
    assert attributed(8, console).rank is None


def test_errors_after_a_stop_by_the_launcher_in_time_are_its_consequence():
    console = Log("console.log", host="a").exit(-9, rank=0, pid=1, at=100).exit(-15, rank=1, pid=2, told=True, at=100)
    log = Log("rank-1.log", rank=1, host="a").fault("dataloader_worker_killed", "killed by signal: Terminated", at=101)
    found = attributed(2, console, log)
    assert (found.fault_class, found.rank) == ("exit_sigkill", 0)
    assert any("the launcher stopped this process" in one.rule for one in found.collateral)


def test_interrupt_that_the_launcher_passes_on():
    console = Log("console.log").fault("keyboard_interrupt", name="launcher.interrupted")
    for pid in (10, 11):
        console.exit(-2, pid=pid, told=True)
    console.fault("peer_lost", rank=0).fault("keyboard_interrupt", rank=1)
    found = attributed(2, console)
    assert (found.fault_class, found.rank) == ("keyboard_interrupt", None)


def test_pid_in_a_caught_signal_is_that_ranks_own():
    console = Log("console.log").exit(-15, pid=77, told=True).exit(1, rank=0, pid=70)
    logs = [Log("0/error.json", rank=0, kind="error_file").fault("collective_timeout", named_rank=1)]
    logs.append(Log("1/error.json", rank=1, kind="error_file").fault("exit_sigterm", name="process.got_signal", pid=77))
    found = attributed(2, console, *logs)
    assert (found.fault_class, found.rank, found.certainty) == ("collective_timeout", 1, "likely")


def test_what_was_thrown_counts_before_terminate():
    log = Log("rank-2.log", rank=2).fault("native_signal", "terminate called", name="native.terminate")
    log.fault("collective_mismatch", "what(): enforce fail")
    assert attributed(3, log).fault_class == "collective_mismatch"


def test_stronger_class_counts_on_one_line():
    log = Log("rank-3.log", rank=3).fault("nccl_error", "NCCL WARN Cuda failure 2 'out of memory'")
    log.lines -= 1
    log.fault("device_oom", "NCCL WARN Cuda failure 2 'out of memory'")
    assert attributed(4, log).fault_class == "device_oom"


def test_several_kernel_lines_about_one_kill_are_one_incident():
    console = Log("console.log").exit(-9, rank=7, pid=50017).exit(-15, rank=0, pid=50010, told=True)
    kernel = Log("dmesg.txt", kind="kernel").fault("host_oom_kill", "oom-kill:constraint=", pid=50017)
    found = attributed(8, console, kernel.fault("host_oom_kill", "Out of memory: Killed process", pid=50017))
    assert [event.text for event in found.initiating] == ["oom-kill:constraint=", "Out of memory: Killed process"]
    assert (found.independent, found.certainty) == ((), "established")


def test_unlabelled_copy_of_a_ranks_exception_is_no_second_failure():
    console = Log("console.log").raises("KeyError: 'x'").fault("peer_lost", rank=0).fault("peer_lost", rank=1)
    own = Log("rank-3.log", rank=3).raises("KeyError: 'x'")
    found = attributed(4, console, own)
    assert (found.rank, found.independent) == (3, ())


def test_a_crash_report_without_a_rank_is_that_of_the_rank_that_crashed():
    console = Log("console.log", host="node-1").steps(3, rank=0)
    console.fault("native_signal", "Fatal Python error: Segmentation fault")
    for rank in (0, 1):
        console.exit(None, rank=rank, pid=100 + rank, told=True)
    console.exit(-11, rank=2, pid=102)
    found = attributed(3, console)
    assert (found.rank, found.independent) == (2, ())
    assert len(found.initiating) == 2


def test_deepspeed_stops_the_rank_that_failed_like_the_others():
    console = Log("console.log", host="node-1")
    for rank in range(3):
        console.exit(None, rank=rank, pid=100 + rank, told=True, reporter="deepspeed")
    kernel = Log("dmesg.txt", kind="kernel", host="node-1").fault("host_oom_kill", pid=101)
    kernel.exit(-9, pid=101, reporter="kernel", host="node-1")
    found = attributed(3, console, kernel)
    assert (found.fault_class, found.rank) == ("host_oom_kill", 1)


def test_kill_after_the_launchers_patience_is_its_own_act():
    console = Log("console.log", host="a")
    console.raises("ValueError: token", rank=1, at=10)
    console.exit(-15, pid=12, told=True, at=11).exit(-15, rank=0, pid=10, told=True).exit(1, rank=1, pid=11, at=41)
    console.exit(-9, rank=2, pid=12, at=41)
    found = attributed(3, console)
    assert (found.rank, found.independent) == (1, ())
    at_once = Log("console.log", host="a").raises("ValueError: token", rank=1, at=10)
    at_once.exit(-15, rank=0, pid=10, told=True).exit(-15, pid=12, told=True, at=11).exit(1, rank=1, pid=11, at=12).exit(
        -9, rank=2, pid=12, at=12
    )
    assert [event.fault_class for event in attributed(3, at_once).independent] == ["exit_sigkill"]


def test_line_about_the_kill_explains_it_without_clocks():
    console = Log("console.log", host="a").raises("ValueError: token", rank=1)
    console.exit(-15, rank=0, pid=10, told=True).exit(-15, pid=12, told=True).exit(-9, pid=12, told=True).exit(
        1, rank=1, pid=11
    ).exit(-9, rank=2, pid=12)
    assert attributed(3, console).independent == ()


def test_rank_that_left_after_the_end_of_training_is_no_failure():
    console = Log("console.log", host="a").note("run.finished").raises("KeyError: 'summary'", rank=2)
    console.exit(-15, pid=11, told=True).exit(1, rank=2, pid=12).exit(-15, rank=1, pid=11)
    found = attributed(3, console)
    assert (found.rank, found.independent) == (2, ())
    early = Log("console.log", host="a").raises("KeyError: 'summary'", rank=2)
    early.exit(-15, pid=11, told=True).exit(1, rank=2, pid=12).exit(-15, rank=1, pid=11)
    assert {one.place.rank for one in (*attributed(3, early).independent, *attributed(3, early).initiating)} >= {2}


def test_who_waited_for_clients_did_not_fail_first():
    log = Log("rank-2.log", rank=2).fault("rendezvous_error", joined=3, expected=4)
    found = attributed(4, log)
    assert found.rank is None
    assert (found.certainty, found.ranks) == ("undetermined", (0, 1, 3))


def test_of_several_suspects_none_is_shown_as_the_first():
    logs = [
        Log(f"node{node}.log", host=f"node-{node}").exit(1, rank=2 + 3 * node, pid=10 + node, at=50 - 7 * node)
        for node in (0, 1)
    ]
    for log in logs:
        log.fault("launcher_report")
    found = attributed(8, *logs)
    assert found.certainty == "undetermined"
    assert {event.place.rank for event in found.initiating} == {2, 5}
