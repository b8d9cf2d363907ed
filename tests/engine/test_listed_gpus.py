"""What nvidia-smi printed, handed over beside a command: its number of GPUs decides facts of the launch and of the Trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

import firstfault

CONFIG = 'compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"\nnum_machines: 1\nnum_processes: 1\n'
TABLE = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.54.15              Driver Version: 550.54.15      CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 3090        Off |   00000000:01:00.0 Off |                  N/A |
| 30%   40C    P8             20W / 350W  |    10MiB /  24576MiB   |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 3090        Off |   00000000:02:00.0 Off |                  N/A |
| 30%   40C    P8             20W / 350W  |    10MiB /  24576MiB   |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
"""
LISTED = "".join(
    f"GPU {index}: NVIDIA A100-SXM4-80GB (UUID: GPU-0{index}345678-aaaa-bbbb-cccc-0123456789ab)\n" for index in range(2)
)
ACCELERATE = "accelerate launch --config_file default.yaml train.py"
TRACEBACK = """\
Traceback (most recent call last):
  File "/home/user/train.py", line 80, in <module>
    trainer.train()
  File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 2325, in train
    return inner_training_loop(
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/data_parallel.py", line 195, in forward
    return self.gather(outputs, self.output_device)
  File "/opt/venv/lib/python3.11/site-packages/torch/nn/parallel/comm.py", line 262, in gather
    return torch._C._gather(tensors, dim, destination)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.64 GiB.
"""


def facts(folder: Path, **files: str) -> dict[str, object]:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    found = firstfault.diagnose([str(folder / name.replace("_", ".")) for name in files])
    return {name: fact["value"] for name, fact in found.facts.items()}


@pytest.mark.parametrize("listing", [TABLE, LISTED])
@pytest.mark.parametrize(
    ("command", "processes", "visible", "n_gpu"),
    [
        (ACCELERATE, 1, 2, 2),
        (f"CUDA_VISIBLE_DEVICES=1 {ACCELERATE}", 1, 1, 1),
        ("python train.py", 1, 2, 2),
        ("torchrun --nproc_per_node gpu train.py", 2, 2, 1),
        ("deepspeed train.py", 2, 2, 1),
    ],
)
def test_the_number_reaches_the_facts(
    tmp_path: Path, listing: str, command: str, processes: int, visible: int, n_gpu: int
) -> None:
    found = facts(tmp_path, smi_txt=listing, default_yaml=CONFIG, job_sh=f"{command}\n")
    names = ("launch.processes", "launch.visible_gpus", "trainer.n_gpu")
    assert tuple(found.get(name) for name in names) == (processes, visible, n_gpu)


def test_with_the_traceback_the_cause_is_established(tmp_path: Path) -> None:
    files = {"smi.txt": TABLE, "default.yaml": CONFIG, "job.sh": f"{ACCELERATE}\n", "run.log": TRACEBACK}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = firstfault.diagnose([str(tmp_path / name) for name in files])
    assert (found.verdict, found.entry) == ("established", "trainer-implicit-dataparallel")
    assert "2 GPUs" in found.cause


@pytest.mark.parametrize("listing", [TABLE, LISTED])
def test_a_list_of_gpus_alone_makes_no_fault_of_a_start_possible(listing: str, tmp_path: Path) -> None:
    (tmp_path / "smi.txt").write_text(listing)
    found = firstfault.diagnose([str(tmp_path / "smi.txt")])
    assert (found.verdict, found.entry) == ("undetermined", None)
    assert found.missing[0].fact == "launch.command"
