from __future__ import annotations

import textwrap
from typing import Any

import pytest

from firstfault.ingest.environment import read_environment
from firstfault.model.bundle import SourceKind
from reader_lines import context, lines


def read(text: str, kind: SourceKind = "environment") -> dict[str, Any]:
    found = read_environment(lines(textwrap.dedent(text)), context("env.txt", kind))
    return {setting.key: setting.value for setting in found}


def test_reads_accelerate_env_also_inside_a_log() -> None:
    found = read(
        """\
        - `Accelerate` version: 1.11.0
        - Python version: 3.11.9
        - PyTorch version: 2.8.0+cu128
        - System RAM: 186.70 GB
        """,
        "log",
    )
    assert found == {"accelerate": "1.11.0", "python": "3.11.9", "torch": "2.8.0+cu128", "host.ram_bytes": round(186.7 * 2**30)}


def test_reads_collect_env() -> None:
    found = read(
        """\
        PyTorch version: 2.5.1+cu121
        GPU models and configuration:
        GPU 0: NVIDIA A100-SXM4-40GB
        GPU 1: NVIDIA A100-SXM4-40GB
        Nvidia driver version: 550.90.07
        [pip3] numpy==1.26.4
        [conda] torchvision  0.20.1  pypi_0  pypi
        """
    )
    assert found["gpu.count"] == 2
    assert (found["torch"], found["numpy"], found["torchvision"], found["gpu.driver"]) == (
        "2.5.1+cu121",
        "1.26.4",
        "0.20.1",
        "550.90.07",
    )


def test_reads_pip() -> None:
    assert read("Package    Version\n---------- -------\ntorch      2.5.1+cu121\nruff 0.6\n", "log") == {"torch": "2.5.1+cu121"}
    assert read("torch==2.5.1\nflash-attn==2.6.3\n", "log") == {"torch": "2.5.1", "flash-attn": "2.6.3"}


def test_bare_rows_count_in_an_environment_file_only() -> None:
    assert read("torch       2.5.1\ntransformers 4.47.1\n") == {"torch": "2.5.1", "transformers": "4.47.1"}
    assert read("loss       2.5.1\nstep 4.47\n", "log") == {}


def test_reads_variables() -> None:
    text = 'HOME=/home/user\nCUDA_VISIBLE_DEVICES=0,1\nexport NCCL_DEBUG="INFO"\nMASTER_ADDR=node-1 RANK=0 WORLD_SIZE=2\n'
    found = read(text)
    assert (found["HOME"], found["CUDA_VISIBLE_DEVICES"], found["NCCL_DEBUG"], found["WORLD_SIZE"]) == (
        "/home/user",
        "0,1",
        "INFO",
        "2",
    )
    assert "HOME" not in read(text, "log")
    assert read("CUDA_VISIBLE_DEVICES=0 torchrun train.py\nMASTER_ADDR=$(hostname)\nX=1 and more\n") == {}


def test_reads_memory_and_gpus_of_hand_made_tables() -> None:
    found = read("gpus        4 x NVIDIA L4\nhost ram    186 GB\ncuda (driver) 12.8  driver 570.86.15\n")
    assert (found["gpu.count"], found["gpu.name"]) == (4, "NVIDIA L4")
    assert (found["host.ram_bytes"], found["gpu.driver"]) == (186 << 30, "570.86.15")


TABLE = """\
| NVIDIA-SMI 550.90.07    Driver Version: 550.90.07    CUDA Version: 12.4     |
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:07:00.0 Off |                    0 |
| N/A   44C    P0    66W / 400W |  30468MiB / 40960MiB |     18%      Default |
|   1  NVIDIA A100-SXM4-40GB          On  | 00000000:0B:00.0 Off |                    0 |
| N/A   44C    P0    66W / 400W |    500MiB / 40960MiB |     18%      Default |
| Processes:                                                                  |
|    0   N/A  N/A      1201      C   python3                         30000MiB |
|    1   N/A  N/A      1201      C   python3                           400MiB |
"""


def test_reads_the_table_of_nvidia_smi() -> None:
    found = read(TABLE, "nvidia_smi")
    assert found["gpu.count"] == 2
    assert (found["gpu.1.name"], found["gpu.1.bus_id"]) == ("NVIDIA A100-SXM4-40GB", "00000000:0b:00.0")
    assert (found["gpu.0.memory_used_bytes"], found["gpu.0.memory_total_bytes"]) == (30468 << 20, 40960 << 20)
    assert (found["gpu.0.process.1201"], found["gpu.1.process.1201"]) == (30000 << 20, 400 << 20)


def test_a_shortened_list_or_a_lost_gpu_leaves_the_count_open() -> None:
    assert "gpu.count" not in read(TABLE + "(GPUs 2 to 7 the same as 1)\n", "nvidia_smi")
    assert "gpu.count" not in read(TABLE + "Unable to determine the device handle for GPU0000:98:00.0\n", "nvidia_smi")
    assert "gpu.count" not in read("\n".join(TABLE.splitlines()[3:5]), "nvidia_smi")


def test_reads_one_line_a_gpu() -> None:
    found = read("|  0   NVIDIA L4       21977MiB / 23034MiB     0%    |   python3 pid 5519\n", "nvidia_smi")
    assert (found["gpu.0.memory_used_bytes"], found["gpu.0.process.5519"]) == (21977 << 20, None)


def test_reads_the_list_and_the_queries() -> None:
    found = read(
        """\
        GPU 0: NVIDIA L4 (UUID: GPU-00000000-0000-4000-8000-000000000001)
        $ nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv
        index, memory.used [MiB], memory.total [MiB]
        0, 611 MiB, 23034 MiB
        gpu_uuid, pid, used_gpu_memory [MiB]
        GPU-00000000-0000-4000-8000-000000000001, 77, 600 MiB
        """,
        "nvidia_smi",
    )
    assert (found["gpu.count"], found["gpu.0.memory_used_bytes"], found["gpu.0.process.77"]) == (1, 611 << 20, 600 << 20)


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n", "GPU 0: \n", "index, memory.used\nx, y, z\n,,,\n", "| 0 |\n"])
def test_odd_text_is_survived(text: str) -> None:
    read(text, "nvidia_smi")


@pytest.mark.parametrize("size", ["50..5 GB", "٣ GB", "9" * 400 + " GB", "1.2.3.4 GiB"])
def test_a_size_that_is_none_is_left_out(size: str) -> None:
    assert read(f"- System RAM: {size}\n", "log") == {}
