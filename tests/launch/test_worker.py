"""What a started process decides about devices, groups and batches."""

from __future__ import annotations

import pytest

from launch_requests import plan_of, rank0


def test_one_process_with_several_gpus_is_data_parallel_and_compiles_nothing() -> None:
    found = rank0("ACCELERATE_DYNAMO_BACKEND=INDUCTOR python train.py")
    assert (found.n_gpu, found.parallel_mode, found.wraps_in_DataParallel) == (4, "ParallelMode.NOT_DISTRIBUTED", True)
    assert found.train_batch_size_of_this_process == 16
    assert found.compiles is False


def test_the_same_process_with_one_gpu_compiles() -> None:
    found = rank0("ACCELERATE_DYNAMO_BACKEND=INDUCTOR CUDA_VISIBLE_DEVICES=3 python train.py")
    assert (found.n_gpu, found.compiles, found.device) == (1, True, "cuda:0")


def test_the_batch_of_the_command_counts() -> None:
    found = rank0("python train.py --per_device_train_batch_size 2")
    assert (found.per_device_batch, found.train_batch_size_of_this_process, found.effective_batch) == (2, 8, 8)


def test_the_effective_batch_counts_processes_and_accumulated_steps() -> None:
    found = rank0("torchrun --nproc_per_node 4 t.py --per_device_train_batch_size=2 --gradient_accumulation_steps 8")
    assert (found.train_batch_size_of_this_process, found.effective_batch) == (2, 64)


def test_a_local_rank_left_in_the_shell_wants_the_rest_of_the_group() -> None:
    found = rank0("LOCAL_RANK=0 python train.py")
    assert found.error is not None and "environment variable RANK expected, but not set" in found.error.message
    assert found.init_missing_env == ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def test_a_whole_group_left_in_the_shell_is_joined() -> None:
    found = rank0("LOCAL_RANK=3 RANK=3 WORLD_SIZE=8 MASTER_ADDR=h MASTER_PORT=1 python train.py", gpus=2)
    assert (found.device, found.trainer_world_size, found.n_gpu) == ("cuda:1", 8, 1)


def test_workers_without_a_gpu_train_alone() -> None:
    plan = plan_of("torchrun --nproc_per_node 4 train.py", gpus=0)
    assert plan.rank0 is not None
    assert (plan.rank0.distributed_type, plan.rank0.trainer_world_size) == ("DistributedType.NO", 1)
    assert any("process group is initialized" in text for text in plan.log)


def test_use_cpu_of_accelerate_leaves_the_trainer_on_the_gpus_and_its_own_does_not() -> None:
    assert rank0("ACCELERATE_USE_CPU=true python train.py").device == "cuda:0"
    own = rank0("python train.py --use_cpu")
    assert (own.device, own.n_gpu) == ("cpu", 0)


@pytest.mark.parametrize(("version", "wraps"), [("1.8.1", True), ("1.9.0", True), ("1.10.0", False), ("1.15.0", False)])
def test_one_worker_is_wrapped_by_old_accelerate_only(version: str, wraps: bool) -> None:
    found = rank0("torchrun train.py", versions={"accelerate": version})
    assert found.wraps_in_DistributedDataParallel is wraps


def test_without_the_version_it_is_not_known_whether_one_worker_is_wrapped() -> None:
    assert rank0("torchrun train.py", versions={}).wraps_in_DistributedDataParallel is None


def test_more_workers_than_gpus_share_one_since_accelerate_0_33_and_fail_before() -> None:
    devices = [process.device for process in plan_of("torchrun --nproc_per_node 3 train.py", gpus=2).processes]
    assert devices == ["cuda:0", "cuda:1", "cuda:0"]
    old = [
        process.device
        for process in plan_of("torchrun --nproc_per_node 3 t.py", gpus=2, versions={"accelerate": "0.32.0"}).processes
    ]
    assert old == ["cuda:0", "cuda:1", None]


def test_without_a_count_of_gpus_nothing_that_hangs_on_it_is_said() -> None:
    found = rank0("python train.py", gpus=None)
    assert (found.n_gpu, found.device, found.parallel_mode) == (None, None, None)
    assert found.distributed_type == "DistributedType.NO"


def test_fsdp_is_no_ddp_and_full_checkpoints_need_gloo() -> None:
    found = rank0("ACCELERATE_USE_FSDP=true FSDP_STATE_DICT_TYPE=FULL_STATE_DICT torchrun --nproc_per_node 2 train.py")
    assert (found.init_process_group, found.wraps_in_DistributedDataParallel) == ("cuda:nccl,cpu:gloo", False)


def test_several_processes_on_cpu_join_by_the_variables_of_mpi() -> None:
    line = "ACCELERATE_USE_CPU=true MASTER_ADDR=h mpirun -n 4 python train.py"
    found = rank0(line, gpus=0)
    assert (found.distributed_type, found.trainer_world_size, found.init_process_group) == (
        "DistributedType.MULTI_CPU",
        4,
        "gloo",
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("LOCAL_RANK=", "invalid literal for int() with base 10: ''"),
        ("ACCELERATE_USE_CPU=maybe LOCAL_RANK=x", "invalid truth value 'maybe'"),
        ("ACCELERATE_DEBUG_MODE=Maybe", "invalid truth value maybe"),
        ("ACCELERATE_CPU_AFFINITY=2", "invalid truth value 2"),
        ("FORK_LAUNCHED=x", "invalid truth value x"),
        ("ACCELERATE_USE_CPU=1 PMI_SIZE=-1 WORLD_SIZE=x", "invalid literal for int() with base 10: 'x'"),
        ("ACCELERATE_USE_CPU=1 PMI_SIZE=2 PMI_RANK=x", "invalid literal for int() with base 10: 'x'"),
        ("ACCELERATE_USE_CPU=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=x", "invalid literal for int() with base 10: 'x'"),
    ],
)
def test_a_variable_that_is_no_value_of_its_kind_stops_the_process_in_python_s_words(variables: str, message: str) -> None:
    error = rank0(f"{variables} python train.py").error
    assert error is not None
    assert (error.type, error.message) == ("ValueError", message)


def test_sizes_behind_the_first_that_is_a_number_are_not_read() -> None:
    assert rank0("ACCELERATE_USE_CPU=1 PMI_SIZE=1 WORLD_SIZE=x python train.py").error is None
    assert rank0("WORLD_SIZE=x RANK=y python train.py").error is None


def test_what_the_library_of_sagemaker_decides_is_not_said() -> None:
    found = rank0("ACCELERATE_USE_SAGEMAKER=true python train.py")
    assert (found.distributed_type, found.device, found.n_gpu, found.wraps_in_DataParallel) == (None, None, None, None)


def test_consumer_cards_under_an_old_driver_stop_a_plain_start() -> None:
    found = rank0("python train.py", gpus=2, gpu_name="NVIDIA GeForce RTX 4090", driver="535.54.03")
    assert found.error is not None and found.error.type == "NotImplementedError"
    assert rank0("python train.py", gpus=2, gpu_name="NVIDIA GeForce RTX 4090", driver="550.54.14").error is None


def test_plain_values_in_the_script_are_those_of_its_trainer() -> None:
    text = "args = TrainingArguments('o', per_device_train_batch_size=8, gradient_accumulation_steps=4)\n# use_cpu=True\n"
    found = rank0("torchrun --nproc_per_node 2 train.py", files={"train.py": text})
    assert (found.per_device_batch, found.effective_batch, found.device) == (8, 64, "cuda:0")
    told = rank0("torchrun --nproc_per_node 2 train.py --per_device_train_batch_size 2", files={"train.py": text})
    assert told.per_device_batch == 2
    alone = rank0("python train.py", files={"train.py": "args = TrainingArguments('o', use_cpu=True)\n"})
    assert (alone.device, alone.n_gpu, alone.wraps_in_DataParallel) == ("cpu", 0, False)
