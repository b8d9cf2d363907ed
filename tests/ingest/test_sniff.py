from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.sniff import SAMPLE_BYTES, sniff

ACCELERATE = (
    b"compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nfsdp_config:\n  fsdp_offload_params: true\nnum_processes: 4\n"
)
TRACEBACK = b'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n    main()\nValueError: bad\n'


@pytest.mark.parametrize(
    ("kind", "name", "data"),
    [
        ("empty", "run.log", b""),
        ("empty", "run.log", b" \n\r\n"),
        ("binary", "run.log", b"\x7fELF\x02\x01" + bytes(range(256)) * 8),
        ("binary", "notes.txt", bytes(range(256)) * 64),
        ("error_file", "x.json", b'{"message": {"message": "ValueError: x", "extraInfo": {}}}'),
        ("error_file", "error.json", b'{"mess'),
        ("error_file", "error.json", b""),
        ("deepspeed_config", "a.txt", b'{\n "zero_optimization": {"stage": 3}\n}'),
        ("deepspeed_config", "ds_config.json", b'{"fp16": {'),
        ("accelerate_config", "pasted.txt", ACCELERATE),
        ("accelerate_config", "default_config.yaml", b"debug: false\nuse_cpu: false\n"),
        ("accelerate_config", "accelerate_config.yaml", b"distributed_type: NO\n\tnum_processes: 1\n"),
        ("vitals", "v.txt", b'{"rank": 0, "accumulation_steps": 8}\n{"rank": 0, "step": 0, "allocated_bytes": 1}\n'),
        ("command", "x.txt", b"CUDA_VISIBLE_DEVICES=0,1 accelerate launch --multi_gpu \\\n  train.py\n"),
        ("command", "job.txt", b"#!/bin/bash\n#SBATCH --nodes=2\nsrun python fit.py\n"),
        ("command", "command.txt", b"./go --lr 1\n"),
        ("environment", "x.txt", b"- `Accelerate` version: 1.0.1\n- Platform: Linux\n- PyTorch version: 2.4\n"),
        ("environment", "x.txt", b"PATH=/usr/bin\nNCCL_DEBUG=INFO\nRANK=3\n"),
        ("environment", "x.txt", b"Package    Version\n---------- -------\ntorch      2.5.1\n"),
        ("environment", "x.txt", b"torch==2.5.1\nnumpy==2.2.0\n"),
        ("environment", "env.txt", b"python      3.11.9\ntorch       2.4.0+cu121\ngpus        2 x SomeGPU\n"),
        ("nvidia_smi", "x.txt", b"+-----+\n| NVIDIA-SMI 550.90   Driver Version: 550.90 |\n+-----+\n"),
        ("nvidia_smi", "x.txt", b"GPU 0: NVIDIA A100 (UUID: GPU-1)\n"),
        ("nvidia_smi", "x.txt", b"index, memory.used [MiB], memory.total [MiB]\n0, 1 MiB, 2 MiB\n"),
        ("kernel", "x.txt", b"[ 7010.100000] NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"),
        ("kernel", "x.txt", b"Jan 14 09:12:40 node-11 kernel: Out of memory: Killed process 12 (python)\n"),
        ("slurm", "x.txt", b"JobID        State      ExitCode\n------\n60811   PREEMPTED  0:0\n"),
        ("slurm", "x.txt", b"60811        PREEMPTED      0:0\n60811.0      CANCELLED     0:15\n"),
        (
            "kubernetes",
            "x.txt",
            b"Name:   pod-1\nStatus: Failed\nContainers:\n  main:\n    State:  Terminated\n      Reason: OOMKilled\n",
        ),
        ("kubernetes", "pod.json", b'{"status": {\n "containerStatuses": [\n {}]}}'),
        ("python", "x.txt", b"import torch\nfrom torch import nn\n\ndef f():\n    raise RuntimeError('CUDA out of memory')\n"),
        ("log", "x.txt", TRACEBACK),
        ("log", "x.txt", b"step 831/845 loss=2.408\nstep 832/845 loss=2.406\n"),
        ("log", "run.out", b"hello there my friend\n"),
        ("log", "slurm-1.out", b"JobId=1 Partition=x\n" + TRACEBACK),
        ("log", "x.txt", b"\xef\xbb\xbf" + TRACEBACK),
        ("log", "rotated.txt", b"\0" * 5000 + TRACEBACK),
        ("log", "rotated.log", b"\0" * SAMPLE_BYTES),
        ("log", "cut.txt", TRACEBACK + b"\0" * 60_000),
        ("prose", "q.txt", b"My training hangs at the first step. Is our network broken?\n"),
        ("unknown", "recipe.yaml", b"base_model: ./mdl\nload_in_4bit: true\nadapter: qlora\n"),
        ("unknown", "x.txt", b"shm 64M 61M 3.1M 96% /dev/shm\n"),
    ],
)
def test_kinds(kind, name, data):
    assert sniff(name, data) == kind


def test_a_table_in_a_letter_is_not_the_whole():
    letter = b"Hi, this fails on my box since yesterday.\nPyTorch version: 2.4\nIs debug build: False\n" + TRACEBACK
    assert sniff("x.txt", letter) == "log"


@given(st.text(max_size=20), st.binary(max_size=300))
def test_any_bytes_have_a_kind(name, data):
    assert sniff(name, data)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "training_args.json",
            '{"output_dir": "out", "per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "max_steps": 10}',
        ),
        ("trainer_state.json", '{"global_step": 12, "max_steps": 40, "train_batch_size": 8, "log_history": [{"loss": 1.2}]}'),
        (
            "sft.yaml",
            "model_name_or_path: /m\nstage: sft\nfinetuning_type: lora\ncutoff_len: 2048\nper_device_train_batch_size: 1\n",
        ),
        ("config.yml", "base_model: /m\nmicro_batch_size: 2\nnum_epochs: 3\ndatasets:\n  - path: d\nsequence_len: 4096\n"),
        (
            "dpo.yaml",
            "# DPO\nmodel_name_or_path: m\ndataset_mixer:\n  a/b: 1.0\nbf16: true\nlearning_rate: 5.0e-7\n",
        ),
    ],
)
def test_files_of_training_arguments(name, text):
    assert sniff(name, text.encode()) == "arguments"


def test_arguments_in_a_log_stay_a_log():
    text = "learning_rate: 0.1\noutput_dir: x\nmax_steps: 3\nstep 1 loss 2\n"
    assert sniff("run.log", text.encode()) == "log"
    assert sniff("run.jsonl", b'{"global_step": 1, "learning_rate": 0.1, "max_steps": 9}\n' * 3) != "arguments"
    assert sniff("ds.json", b'{"train_batch_size": 8, "gradient_accumulation_steps": 2}') == "deepspeed_config"


@pytest.mark.parametrize(
    "text",
    [
        "==============NVSMI LOG==============\n\nTimestamp                 : Mon Nov  3\nDriver Version            : 550.54\n"
        "Attached GPUs             : 2\nGPU 00000000:2B:00.0\n    Product Name          : NVIDIA A100\n"
        "    Clocks Event Reasons\n",
        "pid, process_name, used_gpu_memory [MiB]\n123, python, 4000 MiB\n",
    ],
)
def test_queries_of_nvidia_smi(text):
    assert sniff("q.txt", text.encode()) == "nvidia_smi"
