"""Devices and strategy of a Trainer of Lightning."""

from __future__ import annotations

import pytest

from firstfault.model.plan import Lightning
from launch_requests import plan_of


def _decided(line: str, arguments: str = "", gpus: int = 4) -> Lightning:
    script = f"import lightning as L\ntrainer = L.Trainer({arguments})\n"
    found = plan_of(line, gpus=gpus, files={"train.py": script}).lightning
    assert found is not None
    return found


def test_a_plain_start_takes_every_gpu_and_starts_the_rest_itself() -> None:
    found = _decided("python train.py")
    assert (found.accelerator, found.devices, found.strategy, found.starts, found.world_size) == ("cuda", 4, "ddp", 3, 4)


@pytest.mark.parametrize(
    ("arguments", "gpus", "decided"),
    [
        ("", 0, ("cpu", 1, "single_device", 0)),
        ("devices=1", 4, ("cuda", 1, "single_device", 0)),
        ("devices=2, strategy='fsdp'", 4, ("cuda", 2, "fsdp", 1)),
        ("devices=2, num_nodes=2", 4, ("cuda", 2, "ddp", 1)),
        ("devices=args.n", 4, ("cuda", None, None, None)),
    ],
)
def test_arguments_of_the_call_count(arguments: str, gpus: int, decided: tuple[object, ...]) -> None:
    found = _decided("python train.py", arguments, gpus)
    assert (found.accelerator, found.devices, found.strategy, found.starts) == decided


def test_under_torchrun_it_starts_nothing_and_refuses_another_number() -> None:
    assert _decided("torchrun --nproc_per_node 4 train.py").starts == 0
    error = _decided("torchrun --nproc_per_node 2 train.py").error
    assert error is not None and "does not match the world size (2)" in error.message


def test_under_srun_the_tasks_of_a_node_must_be_the_devices() -> None:
    assert _decided("srun --ntasks-per-node=4 python train.py").error is None
    error = _decided("srun --ntasks-per-node=2 python train.py").error
    assert error is not None and "HINT: Set `devices=2`" in error.message


def test_another_script_has_no_such_decision() -> None:
    assert plan_of("python train.py", files={"train.py": "import torch\n"}).lightning is None
