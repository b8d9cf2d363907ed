"""torchrun: options, rendezvous, workers, errors."""

from __future__ import annotations

import pytest

from launch_requests import plan_of


def test_without_a_number_one_worker_starts_whatever_the_machine_has() -> None:
    plan = plan_of("torchrun train.py", gpus=8)
    assert (plan.nproc_per_node, plan.world_size, plan.rdzv_backend, plan.rdzv_endpoint) == (1, 1, "c10d", "localhost:0")
    assert next(found for found in plan.origins if found.name == "nproc_per_node").source == "default"


@pytest.mark.parametrize(("word", "gpus", "count"), [("gpu", 4, 4), ("auto", 0, 8), ("auto", 2, 2), ("cpu", 4, 8), ("3", 4, 3)])
def test_words_for_the_number_of_workers(word: str, gpus: int, count: int) -> None:
    assert plan_of(f"torchrun --nproc_per_node {word} train.py", gpus=gpus).nproc_per_node == count


def test_visible_gpus_count_and_not_those_of_the_machine() -> None:
    assert plan_of("CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node gpu train.py").nproc_per_node == 2


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ("--nproc_per_node all", "ValueError", "Unsupported nproc_per_node value: all"),
        ("--nnodes 1:2:3", "RuntimeError", 'nnodes=1:2:3 is not in "MIN:MAX" format'),
        ("--redirects 5", "ValueError", r"5 does not match: <^[0123]$> or <^(\d:[0123],)*(\d:[0123])$>"),
        ("--shutdown_timeout -2 -m --no_python", "ValueError", "shutdown_timeout must be non-negative, got -2"),
        ("--max_restarts x", "SystemExit", "torchrun: error: argument --max-restarts/--max_restarts: invalid int value: 'x'"),
    ],
)
def test_errors_have_the_type_and_text_of_torch(options: str, kind: str, message: str) -> None:
    error = plan_of(f"torchrun {options} train.py").error
    assert error is not None
    assert (error.type, error.message) == (kind, message)


def test_a_shutdown_time_that_is_no_number_stops_torchrun_unless_the_option_is_given() -> None:
    error = plan_of("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x torchrun train.py").error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", "invalid literal for int() with base 10: 'x'")
    assert plan_of("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x torchrun --shutdown_timeout 5 train.py").error is None


def test_a_flag_wins_over_a_variable_which_it_overrode() -> None:
    plan = plan_of("PET_NPROC_PER_NODE=3 torchrun --nproc_per 2 train.py")
    found = next(found for found in plan.origins if found.name == "nproc_per_node")
    assert (found.value, found.where) == ("2", "--nproc_per_node")
    assert [(lost.value, lost.where) for lost in found.overrode] == [("3", "PET_NPROC_PER_NODE")]


def test_standalone_drops_the_endpoint_and_says_so() -> None:
    plan = plan_of("torchrun --standalone --nnodes 2 --rdzv_endpoint 10.0.0.1:29400 train.py")
    assert (plan.rdzv_endpoint, plan.nnodes) == ("localhost:0", 2)
    assert [lost.key for lost in plan.no_effect] == ["rdzv_endpoint"]


def test_the_address_means_nothing_to_c10d() -> None:
    plan = plan_of("torchrun --rdzv_backend c10d --rdzv_endpoint h:1 --node_rank 1 --master_addr h train.py")
    assert {lost.key for lost in plan.no_effect} == {"node_rank", "master_addr"}
    assert plan.node_rank is None


def test_what_stands_behind_the_script_belongs_to_it() -> None:
    plan = plan_of("torchrun train.py --nproc_per_node 8")
    assert plan.nproc_per_node == 1
    assert plan.spawn is not None
    assert plan.spawn.argv == ("-u", "train.py", "--nproc_per_node", "8")


def test_the_old_module_hands_the_local_rank_to_the_script() -> None:
    plan = plan_of("python -m torch.distributed.launch --nproc_per_node 2 train.py")
    assert plan.spawn is not None
    assert plan.spawn.argv == ("-u", "train.py", "--local-rank=${local_rank}")
    assert plan.warnings and "deprecated" in plan.warnings[0]


def test_each_worker_of_a_virtual_local_rank_sees_its_own_gpu() -> None:
    plan = plan_of("CUDA_VISIBLE_DEVICES=2,3 torchrun --nproc_per_node 2 --virtual_local_rank train.py")
    assert [(process.visible, process.device, process.env["LOCAL_RANK"]) for process in plan.processes] == [
        (("2",), "cuda:0", "0"),
        (("3",), "cuda:0", "0"),
    ]
    assert plan_of("CUDA_VISIBLE_DEVICES=2 torchrun --nproc_per_node 2 --virtual_local_rank t.py").error is not None


def test_a_second_node_counts_its_ranks_behind_the_first() -> None:
    plan = plan_of("torchrun --nnodes 2 --nproc_per_node 4 --node_rank 1 --master_addr 10.0.0.1 train.py")
    assert [process.rank for process in plan.processes] == [4, 5, 6, 7]
    assert plan.processes[0].env["MASTER_ADDR"] == "10.0.0.1"


def test_ranks_of_nodes_that_meet_are_not_known_before() -> None:
    plan = plan_of("torchrun --nnodes 2 --nproc_per_node 2 --rdzv_backend c10d --rdzv_endpoint h:1 train.py")
    assert [process.rank for process in plan.processes] == [None, None]
    assert plan.processes[0].env["RANK"] == "*"


def test_a_variable_that_is_not_known_leaves_the_number_unknown() -> None:
    plan = plan_of("torchrun --nproc_per_node '$(nvidia-smi -L | wc -l)' --max_restarts '$R' train.py")
    assert (plan.error, plan.nproc_per_node, plan.world_size) == (None, None, None)
    assert [(unknown.fact, unknown.command) for unknown in plan.unknown] == [
        ("nproc_per_node", 'echo "$(nvidia-smi -L | wc -l)"')
    ]


def test_gpus_that_nobody_counted_leave_the_number_unknown() -> None:
    assert plan_of("torchrun --nproc_per_node gpu train.py", gpus=None).nproc_per_node is None
