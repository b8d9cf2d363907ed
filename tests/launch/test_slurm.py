"""srun: tasks, the GPUs each of them sees, launchers behind it."""

from __future__ import annotations

import pytest

from launch_requests import plan_of


@pytest.mark.parametrize(
    ("options", "nodes", "per_node", "world"),
    [
        ("-N2 --ntasks-per-node=4", 2, 4, 8),
        ("-n 8 -N 2", 2, 4, 8),
        ("--ntasks=3", 1, 3, 3),
        ("", 1, 1, 1),
        ("--nodes=2-4", 2, 1, 2),
        ("-l --cpu-bind=cores -N 2", 2, 1, 2),
    ],
)
def test_number_of_tasks(options: str, nodes: int, per_node: int, world: int) -> None:
    plan = plan_of(f"srun {options} python train.py")
    assert (plan.nnodes, plan.nproc_per_node, plan.world_size) == (nodes, per_node, world)


def test_the_job_gives_what_the_step_does_not_ask_for() -> None:
    plan = plan_of("SLURM_NNODES=2 SLURM_NTASKS_PER_NODE=4 srun python train.py")
    assert (plan.nnodes, plan.nproc_per_node, plan.world_size) == (2, 4, 8)


def test_tasks_without_ranks_each_train_alone_on_every_gpu() -> None:
    plan = plan_of("srun --ntasks-per-node=4 python train.py")
    assert plan.rank0 is not None
    assert (plan.rank0.distributed_type, plan.rank0.n_gpu) == ("DistributedType.NO", 4)
    assert all(process.rank is None and process.visible == ("0", "1", "2", "3") for process in plan.processes)


@pytest.mark.parametrize(
    ("options", "visible"),
    [
        ("--gpus-per-task=1", ("0",)),
        ("--gpus-per-task=1 --gpu-bind=none", ("0", "1", "2", "3")),
        ("--gpus-per-node=4 --gpu-bind=single:1", ("0",)),
        ("--gres=gpu:a100:2", ("0", "1")),
        ("--gpu-bind=closest", None),
    ],
)
def test_gpus_of_a_task(options: str, visible: tuple[str, ...] | None) -> None:
    plan = plan_of(f"srun --ntasks-per-node=4 {options} python train.py")
    assert plan.processes[0].visible == visible


def test_a_launcher_behind_srun_starts_once_a_task() -> None:
    plan = plan_of("srun -N2 --ntasks-per-node=4 torchrun --nproc_per_node 4 train.py")
    assert (plan.tool, plan.nproc_per_node) == ("torchrun", 4)
    assert next(found.value for found in plan.origins if found.name == "srun.tasks_per_node") == 4


def test_ranks_that_a_nested_shell_makes_of_slurm_are_ranks() -> None:
    line = (
        "srun -N2 --ntasks-per-node=2 --gres=gpu:2 bash -c 'RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID"
        " WORLD_SIZE=$SLURM_NTASKS MASTER_ADDR=h MASTER_PORT=1 python train.py'"
    )
    plan = plan_of(line)
    assert [(process.rank, process.device) for process in plan.processes] == [(0, "cuda:0"), (1, "cuda:1")]
    assert plan.rank0 is not None and plan.rank0.trainer_world_size == 4


def test_a_script_that_starts_itself_through_srun_ends() -> None:
    plan = plan_of("srun bash a.sh", files={"a.sh": "srun bash a.sh\n"})
    assert plan.rank0 is not None and plan.rank0.device is None
    assert any("no launcher that is known here" in note for note in plan.notes)
