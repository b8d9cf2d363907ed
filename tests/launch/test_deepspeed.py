"""The deepspeed command: hosts, slots, the variable of the visible devices."""

from __future__ import annotations

import pytest

from launch_requests import plan_of

HOSTS = "# pool\nworker-0 slots=4\nworker-1 slots=2\n"


def _plan(line: str, hosts: str = HOSTS):  # type: ignore[no-untyped-def]
    return plan_of(line, files={"hosts": hosts})


def test_without_a_hostfile_every_gpu_of_this_machine_gets_a_process() -> None:
    plan = plan_of("deepspeed train.py --lr 1")
    assert (plan.nproc_per_node, plan.world_size, plan.starter) == (4, 4, "deepspeed")
    assert plan.spawn is not None
    assert plan.spawn.argv == ("<python>", "-u", "train.py", "--local_rank=0", "--lr", "1")
    assert plan.processes[3].env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3"


def test_visible_devices_become_the_chosen_ids() -> None:
    plan = plan_of("CUDA_VISIBLE_DEVICES=3,1 deepspeed train.py")
    assert [(process.local_rank, process.visible, process.device) for process in plan.processes] == [
        (0, ("1", "3"), "cuda:0"),
        (1, ("1", "3"), "cuda:1"),
    ]
    assert plan.env_removed == ("CUDA_VISIBLE_DEVICES",)


def test_visible_devices_beside_a_limit_are_ignored_and_removed() -> None:
    plan = plan_of("CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 1 train.py")
    assert plan.processes[0].visible == ("0",)
    assert [lost.key for lost in plan.no_effect] == ["CUDA_VISIBLE_DEVICES"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("deepspeed --num_gpus 1 --include localhost:0 t.py", "Cannot specify num_nodes/gpus with include/exclude"),
        ("deepspeed --num_nodes 2 t.py", "Num nodes is >1 but no extra nodes available via hostfile"),
        ("deepspeed --exclude localhost:9 t.py", "No slot '9' specified on host 'localhost'"),
        ("deepspeed -H hosts --include other:0 t.py", "Hostname 'other' not found in hostfile"),
        ("deepspeed -H hosts --no_ssh t.py", "Launching training without ssh, but --node_rank is not set correctly."),
        ("deepspeed --num_gpus two t.py", "deepspeed: error: argument --num_gpus/--num_accelerators: invalid int value: 'two'"),
    ],
)
def test_errors_have_the_text_of_deepspeed(line: str, message: str) -> None:
    error = _plan(line).error
    assert error is not None and error.message == message


def test_no_gpu_at_all_stops_it() -> None:
    error = plan_of("deepspeed train.py", gpus=0).error
    assert error is not None and error.message == "Unable to proceed, no GPU resources available"


def test_hosts_of_the_file_are_limited_and_their_ranks_counted_through() -> None:
    plan = _plan("deepspeed -H hosts --exclude worker-0:0 train.py")
    assert (plan.nnodes, plan.world_size, plan.nproc_per_node, plan.launcher) == (2, 5, 3, "pdsh")
    assert plan.processes[0].env["CUDA_VISIBLE_DEVICES"] == "1,2,3"
    second = _plan("deepspeed -H hosts --no_ssh --node_rank 1 train.py")
    assert [process.rank for process in second.processes] == [4, 5]


def test_a_bad_hostfile_is_named() -> None:
    error = _plan("deepspeed -H hosts t.py", "worker-0 slots=2\nworker-0 slots=2\n").error
    assert error is not None and "multiple entries for worker-0" in error.message


def test_gpus_that_nobody_counted_leave_the_processes_unknown() -> None:
    plan = plan_of("deepspeed train.py", gpus=None)
    assert (plan.nproc_per_node, plan.processes) == (None, ())
    assert [unknown.fact for unknown in plan.unknown] == ["gpus"]


def test_variables_that_reach_the_other_machines_are_named() -> None:
    plan = _plan("NCCL_DEBUG=INFO FOO=1 deepspeed -H hosts train.py")
    assert any("NCCL_DEBUG" in note and "FOO" not in note for note in plan.notes)


def test_a_host_without_slots_chooses_nothing() -> None:
    error = plan_of("deepspeed --include localhost train.py").error
    assert error is not None and (error.type, error.message) == ("IndexError", "list index out of range")


def test_a_hostfile_that_is_not_at_hand_is_asked_for() -> None:
    found = plan_of("deepspeed --hostfile hosts train.py")
    assert [(one.fact, one.command) for one in found.unknown] == [("hostfile", "cat hosts")]
