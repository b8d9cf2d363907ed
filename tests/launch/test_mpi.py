"""mpirun: counts, hosts, variables."""

from __future__ import annotations

import pytest

from launch_requests import plan_of


@pytest.mark.parametrize(
    ("options", "nodes", "per_node", "world"),
    [
        ("-np 4", 1, 4, 4),
        ("-n 8 -H a:4,b:4", 2, 4, 8),
        ("--npernode 2 -n 4 --hostfile hosts", 2, 2, 4),
        ("-n 6 --hostfile hosts", 2, 3, 6),
        ("-n 4 -ppn 2 -genv A 1", 2, 2, 4),
        ("-n 4 -H a,b", None, None, 4),
        ("--bind-to none -x FOO --mca a b -np 2", 1, 2, 2),
    ],
)
def test_counts(options: str, nodes: int | None, per_node: int | None, world: int) -> None:
    plan = plan_of(f"mpirun {options} python train.py", files={"hosts": "a slots=3\nb slots=3\n"})
    assert (plan.nnodes, plan.nproc_per_node, plan.world_size) == (nodes, per_node, world)
    assert plan.spawn is not None and plan.spawn.argv == ("python", "train.py")


def test_on_gpus_every_process_believes_it_is_alone() -> None:
    plan = plan_of("mpirun -np 4 python train.py")
    assert plan.rank0 is not None and plan.rank0.parallel_mode == "ParallelMode.NOT_DISTRIBUTED"
    assert plan.processes[2].env["OMPI_COMM_WORLD_RANK"] == "2"


def test_variables_of_the_launcher_reach_its_processes() -> None:
    plan = plan_of("mpiexec -n 2 -genv CUDA_VISIBLE_DEVICES 1 python train.py")
    assert plan.processes[0].visible == ("1",)
    assert "PMI_RANK" in plan.processes[0].env


def test_without_a_number_it_is_missing() -> None:
    plan = plan_of("mpirun --hostfile hosts python train.py")
    assert plan.world_size is None
    assert [unknown.fact for unknown in plan.unknown] == ["mpi.processes"]
