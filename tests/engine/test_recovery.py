"""Healthy ends, errors that the run survived, and runs that stop without a word."""

from __future__ import annotations

from engine.faults import Log, attributed


def test_healthy_run():
    found = attributed(1, Log("a.log").steps(10, total=10).note("run.finished"))
    assert (found.fault_class, found.finished, found.initiating) == ("none", True, ())


def test_scary_lines_before_a_normal_end_are_survived():
    log = Log("a.log").steps(4).fault("nccl_error").raises("OSError: retrying").steps(6).note("run.finished")
    found = attributed(1, log)
    assert found.fault_class == "none"
    assert len(found.recovered) == 2


def test_end_line_right_below_what_python_gave_up_with_may_be_a_flushed_buffer():
    uncaught = Log("run.log", rank=0).raises("KeyError: 'final'", function="<module>").note("run.finished")
    assert attributed(1, uncaught).fault_class == "python_exception"
    handled = Log("run.log", rank=0).raises("KeyError: 'final'", function="evaluate").note("run.finished")
    assert attributed(1, handled).fault_class == "none"
    dated = Log("run.log", rank=0).raises("KeyError: 'final'", function="<module>", at=100).note("run.finished", at=101)
    assert attributed(1, dated).fault_class == "none"


def test_noise_after_a_normal_end_is_no_failure():
    log = Log("a.log").steps(10, total=10).note("run.finished").fault("teardown_noise").fault("peer_lost")
    assert attributed(2, log).fault_class == "none"


def test_error_after_a_normal_end_is_a_failure():
    log = Log("a.log").steps(10, total=10).note("run.finished").fault("native_signal")
    found = attributed(1, log)
    assert (found.fault_class, found.finished) == ("native_signal", True)


def test_error_with_progress_and_a_later_failure_is_survived():
    log = Log("rank-0.log", rank=0).fault("storage_errno").steps(8).raises("KeyError: 'x'")
    found = attributed(1, log)
    assert found.fault_class == "python_exception"
    assert [event.name for event in found.recovered] == ["storage_errno"]


def test_buffered_progress_behind_a_traceback_is_no_recovery():
    log = Log("a.log").raises("KeyError: 'x'").steps(8)
    assert attributed(1, log).fault_class == "python_exception"


def test_later_progress_with_later_times_is_a_recovery():
    log = Log("a.log").raises("KeyError: 'x'", at=100).steps(8, at=130)
    assert attributed(1, log).fault_class == "none"


def test_progress_of_another_rank_is_no_recovery():
    log = Log("a.log").fault("storage_errno", rank=1).steps(8, rank=0)
    assert attributed(2, log).rank == 1


def test_run_that_stops_in_the_middle_is_silent():
    found = attributed(1, Log("a.log", ends=False).steps(10, total=100))
    assert (found.fault_class, found.certainty) == ("silent", "undetermined")


def test_question_beside_a_run_without_an_end_makes_its_silence_a_failure():
    running, question = Log("a.log").steps(10, total=100), Log("post.txt", kind="prose")
    assert attributed(1, running).fault_class == "none"
    assert attributed(1, running, question).fault_class == "silent"
    assert attributed(1, Log("a.log").steps(10).note("run.finished"), question).fault_class == "none"


def test_exit_code_zero_of_every_process_is_an_end():
    found = attributed(None, Log("a.log").exit(0, rank=0))
    assert (found.fault_class, found.finished) == ("none", True)


def test_logged_error_followed_by_progress_is_survived_but_an_announced_stop_is_not():
    assert attributed(1, Log("a.log").fault("gpu_xid").steps(9)).fault_class == "none"
    assert attributed(1, Log("a.log").fault("scheduler_stop").steps(9)).fault_class == "scheduler_stop"


def test_preempted_attempt_that_was_requeued_and_finished():
    log = Log("slurm.out").steps(4).fault("scheduler_stop").exit(-15, reporter="slurm").steps(9).note("run.finished")
    assert attributed(None, log).fault_class == "none"


def _requeued(*, again: bool, trains: bool = True) -> Log:
    log = Log("slurm.out").steps(4).fault("scheduler_stop").exit(-15, reporter="slurm")
    log = log.note("launcher.started_workers") if again else log
    return log.steps(9) if trains else log


def test_stop_is_over_once_the_job_was_started_again_and_trains():
    assert attributed(None, _requeued(again=True)).fault_class == "none"
    assert attributed(None, _requeued(again=False)).fault_class == "scheduler_stop"
    assert attributed(None, _requeued(again=True, trains=False)).fault_class == "scheduler_stop"


def test_new_start_does_not_excuse_an_exit_that_nobody_asked_for():
    crashed = Log("a.log").steps(4).exit(-11, rank=0).note("launcher.started_workers").steps(9)
    assert attributed(None, crashed).fault_class == "native_signal"


def test_progress_of_another_part_of_a_paste_is_no_recovery():
    log = Log("paste.txt#1").raises("KeyError: 'x'")
    other = Log("paste.txt#2").steps(50, total=50)
    assert attributed(None, log, other).fault_class == "python_exception"


def test_logged_error_without_a_label_is_over_where_steps_follow_and_a_rank_fails_later():
    log = Log("console.log").raises("ConnectionError: reset", fault_class="hub_error").steps(4)
    log.raises("ValueError: token", rank=3).exit(1, rank=3, pid=13)
    found = attributed(4, log)
    assert (found.rank, found.independent) == (3, ())
    assert [event.fault_class for event in found.recovered] == ["hub_error"]
    at_the_end = Log("console.log").steps(4).raises("ConnectionError: reset", fault_class="hub_error")
    at_the_end.raises("ValueError: token", rank=3).exit(1, rank=3, pid=13)
    assert attributed(4, at_the_end).recovered == ()
