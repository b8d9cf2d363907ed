"""The launch plan against recorded starts of accelerate 1.15, torch 2.13 and transformers 5.24 with pretended GPUs."""

from __future__ import annotations

import pytest

from firstfault.ingest.command import read_command
from firstfault.launch.processes import plan_facts
from firstfault.model.span import SourceSpan
from launch_plans import ACCELERATE, facts, values, yaml
from launch_requests import plan_of
from reader_lines import context, lines


@pytest.mark.parametrize(
    ("command", "config", "count", "processes", "n_gpu"),
    [
        (f"{ACCELERATE} t.py", yaml('"NO"'), 4, 1, 4),
        (f"{ACCELERATE} t.py", yaml("NO"), 4, 1, 4),
        (f"{ACCELERATE} t.py", yaml('"NO"', "num_processes: 1"), 1, 1, 1),
        (f"{ACCELERATE} t.py", yaml('"NO"', "num_processes: 1"), 0, 1, 0),
        (f"{ACCELERATE} --num_processes 4 t.py", yaml('"NO"', "num_processes: 1"), 4, 1, 4),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 1"), 4, 1, 1),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 4"), 4, 4, 1),
        (f"{ACCELERATE} --num_processes 2 t.py", yaml("MULTI_GPU", "num_processes: 4"), 4, 2, 1),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 2"), 0, 2, 0),
        (f"{ACCELERATE} t.py", yaml("MULTI_CPU", "num_processes: 4"), 0, 1, 0),
        (f"{ACCELERATE} --multi_gpu --num_processes 2 t.py", yaml('"NO"', "num_processes: 1"), 4, 2, 1),
        (f"{ACCELERATE} t.py", yaml('"NO"', 'gpu_ids: "0"', "num_processes: 1"), 4, 1, 1),
        (f"CUDA_VISIBLE_DEVICES=0 {ACCELERATE} t.py", yaml('"NO"', "num_processes: 1"), 4, 1, 1),
        (f"CUDA_VISIBLE_DEVICES=0 {ACCELERATE} t.py", yaml('"NO"', 'gpu_ids: "0,1"', "num_processes: 1"), 4, 1, 2),
        ("accelerate launch --cpu --num_processes 4 t.py", "", 0, 1, 0),
        ("accelerate launch --use_fsdp --num_processes 2 --num_machines 1 t.py", "", 4, 2, 1),
        ("torchrun t.py", "", 4, 1, 1),
        ("torchrun --nproc_per_node 2 t.py", "", 4, 2, 1),
        ("torchrun --nproc_per_node gpu t.py", "", 4, 4, 1),
        ("PET_NPROC_PER_NODE=3 torchrun t.py", "", 4, 3, 1),
        ("python t.py", "", 4, 1, 4),
        ("CUDA_VISIBLE_DEVICES=2,9,1 python t.py", "", 4, 1, 1),
        ("CUDA_VISIBLE_DEVICES=1,1 python t.py", "", 4, 1, 0),
        ("deepspeed --num_gpus 2 t.py", "", 4, 2, 1),
        ("deepspeed --include localhost:0,3 t.py", "", 4, 2, 1),
        ("deepspeed t.py", "", 4, 4, 1),
    ],
)
def test_processes_and_gpus_of_each(command: str, config: str, count: int, processes: int, n_gpu: int) -> None:
    found = values(command, config=config, count=count)
    assert (found["launch.processes"], found["trainer.n_gpu"]) == (processes, n_gpu)


@pytest.mark.parametrize(
    ("command", "config"),
    [
        ("accelerate launch t.py", ""),
        ("accelerate launch --num_processes 2 t.py", ""),
        (f"{ACCELERATE} t.py", ""),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU")),
        (f"{ACCELERATE} t.py", yaml("MULTI_CPU")),
        (f"{ACCELERATE} t.py", yaml("multi_gpu", "num_processes: 2")),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: auto")),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 2", "gpu_ids: 0")),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 2", "gpu_ids: [0, 1]")),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 2", "mixed_precision: no")),
        (f"{ACCELERATE} t.py", yaml("MULTI_GPU", "num_processes: 2", "num_gpus: 2")),
        (f"{ACCELERATE} --multi_gpu --num_processes 1 t.py", yaml('"NO"')),
        (f"{ACCELERATE} --multi_gpu --use_fsdp --num_processes 2 t.py", yaml('"NO"')),
        (f"{ACCELERATE} --mpirun_hostfile hosts --num_processes 2 --cpu t.py", yaml("MULTI_CPU", "num_processes: 2")),
        ("torchrun --nproc_per_node auto t.py", ""),
        ("torchrun --nnodes 0 --nproc_per_node 2 t.py", ""),
        ("torchrun --nnodes 2 ... t.py", ""),
        ("deepspeed --hostfile hosts t.py", ""),
        ("mpirun -np 8 python t.py", ""),
        ("srun python t.py", ""),
    ],
)
def test_what_is_refused_or_not_at_hand_stays_unknown(command: str, config: str) -> None:
    assert "launch.processes" not in values(command, config=config)


def test_machines_share_the_processes() -> None:
    config = yaml("MULTI_GPU", "num_processes: 8").replace("num_machines: 1", "num_machines: 2")
    found = values(f"{ACCELERATE} t.py", config=config)
    assert (found["launch.processes"], found["launch.processes_asked"], found["launch.nodes_asked"]) == (4, 4, 2)


def test_where_the_configuration_comes_from() -> None:
    assert values(f"{ACCELERATE} t.py")["launch.config_source"] == "explicit"
    assert (
        values("accelerate launch t.py", config=yaml('"NO"'), name="default_config.yaml")["launch.config_source"] == "default"
    )
    assert values("accelerate launch --cpu t.py")["launch.config_source"] == "none"
    assert "launch.config_source" not in values("accelerate launch t.py")


def test_a_file_that_the_command_does_not_name_is_not_its_configuration() -> None:
    assert "launch.processes" not in values("accelerate launch --config_file other.yaml t.py", config=yaml('"NO"'))


def test_facts_point_at_the_settings_they_rest_on() -> None:
    found = facts(f"{ACCELERATE} t.py", config=yaml('"NO"', "num_processes: 1"), count=4)
    assert {str(span) for span in found["launch.processes"].spans} == {"conf.yaml:2", "conf.yaml:3", "conf.yaml:4"}
    assert {span.source for span in found["trainer.n_gpu"].spans} == {"job.sh", "env.txt"}
    assert found["launch.processes"].basis == "derived"


def test_a_process_with_local_rank_is_not_taken_for_a_single_one() -> None:
    assert "trainer.n_gpu" not in values("LOCAL_RANK=0 python t.py", count=4)


SLURM = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:8\n"


def test_a_job_that_starts_its_launcher_on_one_node() -> None:
    found = values(SLURM + "torchrun --nnodes 2 --nproc_per_node 8 t.py\n")
    assert (found["launch.per_node_start"], found["launch.slurm_tasks_per_node"], found["launch.visible_gpus"]) == (False, 1, 8)
    assert values(SLURM + "srun torchrun --nnodes 2 --nproc_per_node 8 t.py\n")["launch.per_node_start"] is True


def test_tasks_of_srun_are_processes_without_local_rank() -> None:
    found = values(SLURM + "srun --ntasks-per-node=4 python t.py\n")
    assert (found["launch.starter"], found["launch.processes"], found["trainer.n_gpu"]) == ("srun", 4, 8)
    assert values("srun --nodes 2 --ntasks 16 python t.py")["launch.processes"] == 8


def test_several_commands_give_what_they_agree_on() -> None:
    found = values("torchrun --nproc_per_node 2 a.py\npython a.py\n", count=2)
    assert found == {"launch.visible_gpus": 2}


def test_the_last_command_before_the_event_counts() -> None:
    settings = read_command(lines("$ torchrun --nproc_per_node 2 a.py\nerror\n$ python a.py\nfine\n"), context("out.log"))
    found = {fact.name: fact.value for fact in plan_facts(settings, at=SourceSpan("out.log", 2, 36))}
    assert (found["launch.starter"], found["launch.processes"]) == ("torchrun", 2)


@pytest.mark.parametrize("count", ["²", "--2", "9" * 5000])
def test_a_count_that_is_no_number_plans_nothing(count: str) -> None:
    assert "launch.processes" not in values(f"torchrun --nproc_per_node {count} t.py")
    values(f"srun --gpus-per-node {count} python t.py")


@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("torchrun --nproc_per_node auto t.py", 4),
        ("torchrun --nnodes 2 --nproc-per-node=3 t.py", 4),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc_per_node gpu t.py", 4),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed t.py", 4),
        ("CUDA_VISIBLE_DEVICES=0,1 deepspeed --num_gpus 3 t.py", 4),
        ("deepspeed --exclude localhost:1 t.py", 4),
        ("deepspeed --include localhost:0,3 t.py", 4),
        ("python t.py", 2),
        ("python t.py --use_cpu", 2),
        ("RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=a MASTER_PORT=1 python t.py", 4),
        ("python -m torch.distributed.run --nproc_per_node 2 t.py", 4),
        ("python -m accelerate.commands.launch --cpu --num_processes 2 t.py", 4),
        ("accelerate launch --cpu --num_processes 4 t.py", 4),
    ],
)
def test_a_diagnosis_and_a_plan_say_the_same(command: str, count: int) -> None:
    planned, found = plan_of(command, gpus=count), values(command, count=count)
    assert found["launch.processes"] == planned.nproc_per_node
    assert planned.rank0 is not None
    assert found.get("trainer.n_gpu") in (planned.rank0.n_gpu, None)
    assert "trainer.n_gpu" in found or planned.rank0.n_gpu is None


def test_a_known_version_decides_what_accelerate_takes() -> None:
    config = yaml("MULTI_GPU", "num_processes: 2", "ipex_config: {}", "downcast_bf16: 'no'")
    assert values(f"{ACCELERATE} t.py", config=config)["launch.processes"] == 2


@pytest.mark.parametrize("line", ["jsrun -n 4 python train.py", "flux run -n4 python train.py", "make train"])
def test_a_launcher_that_is_not_known_leaves_a_question(line: str) -> None:
    found = plan_of(line)
    assert found.world_size is None
    assert [one.fact for one in found.unknown] == ["launcher"]
    assert "/proc/PID/environ" in found.unknown[0].command
