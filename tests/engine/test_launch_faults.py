"""Every frequent launch fault, as a command and the finding that it must open: silent ones and those that stop."""

from __future__ import annotations

from typing import Any

import pytest

from firstfault.engine.plan_findings import findings
from firstfault.knowledge.pack import load_pack
from firstfault.launch.plan import plan
from launch_requests import request

PACK = load_pack()
NAMED = "accelerate launch --config_file c.yaml train.py"
TWO = "accelerate launch --multi_gpu --num_machines 2 --main_process_ip node-0"
DEEPSPEED = "accelerate launch --use_deepspeed --num_machines 2 --machine_rank 0 --main_process_ip node-0 --num_processes 8"
PARSER = "import argparse\nargparse.ArgumentParser().parse_args()\n"
TRAINER = "from transformers import Trainer, TrainingArguments\n"


def config(kind: str, *more: str, processes: object = 4) -> dict[str, Any]:
    lines = (
        f"compute_environment: LOCAL_MACHINE\ndistributed_type: {kind}\nnum_machines: 1\nnum_processes: {processes}",
        *more,
    )
    return {"files": {"c.yaml": "\n".join(lines) + "\n"}}


def script(text: str, name: str = "train.py") -> dict[str, Any]:
    return {"files": {name: text}}


FREQUENT: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("one process sees all GPUs", "python train.py", {}, "trainer-implicit-dataparallel"),
    ("one process of accelerate", NAMED, config('"NO"', processes=1), "trainer-implicit-dataparallel"),
    ("one task of srun", "srun --ntasks=1 python train.py", {}, "trainer-implicit-dataparallel"),
    ("no configuration", "accelerate launch train.py", {}, "accelerate-starts-all-gpus"),
    (
        "port of accelerate taken",
        f"{TWO} --machine_rank 0 --main_process_port 29500 --num_processes 8 train.py",
        {"ports_in_use": frozenset({29500})},
        "rendezvous-port-in-use",
    ),
    (
        "port of torchrun taken",
        "torchrun --nproc_per_node 4 --master_port 29500 train.py",
        {"ports_in_use": frozenset({29500})},
        "rendezvous-port-in-use",
    ),
    (
        "device_map auto",
        "torchrun --nproc_per_node 4 train.py",
        script('m = AutoModel.from_pretrained("m", device_map="auto")\n'),
        "device-map-in-distributed",
    ),
    ("more processes than GPUs", "torchrun --nproc_per_node 8 train.py", {}, "more-processes-than-gpus"),
    ("multi_gpu with one", "accelerate launch --multi_gpu --num_processes 1 train.py", {}, "launcher-config-invalid"),
    ("unknown key", NAMED, config("MULTI_GPU", "num_gpus: 4"), "launcher-config-unknown-keys"),
    (
        "file beats the option",
        "accelerate launch --config_file c.yaml --fsdp_offload_params true train.py",
        {**config("FSDP", "fsdp_config:", "  fsdp_offload_params: false"), "versions": {"accelerate": "1.2.1"}},
        "setting-overridden",
    ),
    *(
        (f"{key} never read", NAMED, config("MULTI_GPU", f"{key}: {value}"), "launcher-key-never-read")
        for key, value in (("rdzv_backend", "c10d"), ("enable_cpu_affinity", "true"), ("downcast_bf16", "'yes'"))
    ),
    ("value of a switch", "accelerate launch --same_network false train.py", {}, "entrypoint-not-found"),
    ("option behind the script", "torchrun train.py --nproc_per_node 4", {}, "launcher-flag-after-script"),
    (
        "total over machines, rest",
        f"{TWO} --machine_rank 0 --num_processes 15 train.py",
        {"gpus": 8},
        "fewer-processes-than-asked",
    ),
    ("total over machines", f"{TWO} --machine_rank 0 --num_processes 4 train.py", {}, "process-count-per-machine"),
    ("no machine rank", f"{TWO} --num_processes 8 train.py", {}, "node-commands-inconsistent"),
    (
        "no address",
        "accelerate launch --multi_gpu --num_machines 2 --machine_rank 0 --num_processes 8 train.py",
        {},
        "node-commands-inconsistent",
    ),
    (
        "one rank for all",
        f"srun -N 2 --ntasks-per-node=1 {TWO} --machine_rank 0 --num_processes 8 train.py",
        {},
        "node-commands-inconsistent",
    ),
    (
        "address as a variable",
        "MASTER_ADDR=node-0 torchrun --nnodes 2 --nproc_per_node 4 train.py",
        {},
        "master-address-unreachable",
    ),
    ("launcher once per task", "srun -n 4 torchrun --nproc_per_node 4 train.py", {}, "slurm-task-count-mismatch"),
    (
        "standalone, two nodes",
        "torchrun --standalone --nnodes 2 --nproc_per_node 4 train.py",
        {},
        "standalone-on-several-nodes",
    ),
    (
        "standalone, endpoint",
        "torchrun --standalone --rdzv_endpoint node-0:29400 --nproc_per_node 4 train.py",
        {},
        "standalone-on-several-nodes",
    ),
    (
        "local rank of torch",
        "python -m torch.distributed.launch --nproc_per_node 4 train.py",
        script(PARSER),
        "local-rank-argument",
    ),
    ("local rank of deepspeed", "deepspeed train.py", script(PARSER), "local-rank-argument"),
    ("LOCAL_RANK left over", "LOCAL_RANK=0 python train.py", {}, "rank-variables-missing"),
    (
        "all rank variables left over",
        "LOCAL_RANK=0 RANK=0 WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1 accelerate launch --num_processes 1 train.py",
        {},
        "stale-rank-variables",
    ),
    (
        "values in both files",
        NAMED,
        config("DEEPSPEED", "deepspeed_config:", "  deepspeed_config_file: ds.json", "  zero_stage: 2"),
        "deepspeed-config-error",
    ),
    ("variable beside num_gpus", "CUDA_VISIBLE_DEVICES=2,3 deepspeed --num_gpus 2 train.py", {}, "gpu-selection-ignored"),
    ("slot that is not there", "deepspeed --include localhost:9 train.py", {}, "no-usable-gpu"),
    (
        "RTX 40 with an old driver",
        "accelerate launch --num_processes 1 train.py",
        {"gpu_name": "NVIDIA GeForce RTX 4090", "driver": "535.1", "gpus": 2},
        "peer-to-peer-blocked",
    ),
    (
        "quantised model on one device",
        "torchrun --nproc_per_node 4 train.py",
        script('m = load("m", load_in_8bit=True, device_map={"": 0})\n'),
        "device-map-in-distributed",
    ),
    (
        "logits of an evaluation",
        "torchrun --nproc_per_node 4 train.py",
        script(f'{TRAINER}Trainer(AutoModelForCausalLM.from_pretrained("m"), compute_metrics=score)\n'),
        "eval-predictions-kept-on-gpu",
    ),
    (
        "layer class",
        "accelerate launch --use_fsdp --num_processes 4 --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer train.py",
        script('m = Qwen2ForCausalLM.from_pretrained("m")\n'),
        "fsdp-wrap-class-not-found",
    ),
    (
        "notebook launcher",
        "CUDA_VISIBLE_DEVICES=0 python nb.py",
        script("model.to('cuda')\nnotebook_launcher(train, num_processes=4)\n", "nb.py"),
        "cuda-initialised-before-fork",
    ),
    (
        "fp16 weights",
        "torchrun --nproc_per_node 4 train.py --fp16",
        script(f'{TRAINER}Trainer(AutoModel.from_pretrained("m", torch_dtype=torch.float16))\n'),
        "fp16-weights-with-grad-scaler",
    ),
    ("fsdp as an option", "CUDA_VISIBLE_DEVICES=0 python train.py --fsdp full_shard", {}, "fsdp-config-error"),
    (
        "fsdp in the script",
        "CUDA_VISIBLE_DEVICES=0 python train.py",
        script(f'{TRAINER}Trainer(model, TrainingArguments("o", fsdp="full_shard auto_wrap"))\n'),
        "fsdp-config-error",
    ),
    (
        "PET_ variables",
        "PET_NNODES=2 accelerate launch --multi_gpu --num_processes 4 train.py",
        {},
        "elastic-variables-left-over",
    ),
    (
        "no GPU, several processes",
        "CUDA_VISIBLE_DEVICES=9 torchrun --nproc_per_node 4 train.py",
        {},
        "ranks-train-independently",
    ),
    ("no GPU, one process", "CUDA_VISIBLE_DEVICES= python train.py", {}, "no-usable-gpu"),
    ("use_cpu in the file", NAMED, config('"NO"', "use_cpu: true", processes=1), "trainer-ignores-use-cpu"),
    ("--cpu", "accelerate launch --cpu train.py", {}, "trainer-ignores-use-cpu"),
    ("gpu_ids as a number", NAMED, config("MULTI_GPU", "gpu_ids: 0"), "launcher-config-value-type"),
    ("gpu_ids as a list", NAMED, config("MULTI_GPU", "gpu_ids: [0, 1]"), "launcher-config-value-type"),
    ("unquoted no", NAMED, config("MULTI_GPU", "mixed_precision: no"), "launcher-config-value-type"),
    *((f"type {kind}", NAMED, config(kind), "launcher-config-value-type") for kind in ("multi_gpu", "DDP", "TPU")),
    ("torchrun alone", "torchrun train.py", {}, "torchrun-starts-one-worker"),
    (
        "one id for several",
        "accelerate launch --config_file c.yaml --gpu_ids 0 train.py",
        config("MULTI_GPU"),
        "launcher-config-invalid",
    ),
    ("ids do not count", "accelerate launch --gpu_ids 0 train.py", {}, "accelerate-starts-all-gpus"),
    (
        "configuration elsewhere",
        "HF_HOME=/data/hf accelerate launch train.py",
        {"files": {"~/.cache/huggingface/accelerate/default_config.yaml": config("MULTI_GPU")["files"]["c.yaml"]}},
        "default-config-not-found",
    ),
)

SILENT: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("NO with several processes", NAMED, config('"NO"'), "fewer-processes-than-asked"),
    ("MULTI_CPU without mpirun", NAMED, config("MULTI_CPU"), "fewer-processes-than-asked"),
    (
        "fsdp option without its mode",
        "accelerate launch --num_processes 4 --fsdp_offload_params true train.py",
        {},
        "launcher-mode-not-on",
    ),
    ("zero stage without its mode", "accelerate launch --num_processes 4 --zero_stage 3 train.py", {}, "launcher-mode-not-on"),
    ("fsdp table without its mode", NAMED, config("MULTI_GPU", "fsdp_config:", "  fsdp_version: 2"), "launcher-mode-not-on"),
    (
        "mode of the file dropped",
        "accelerate launch --use_fsdp --config_file c.yaml train.py",
        config("DEEPSPEED", "deepspeed_config:", "  zero_stage: 3"),
        "launcher-mode-not-on",
    ),
    ("key inside a table", NAMED, config("FSDP", "fsdp_config:", "  fsdp_ofload_params: true"), "launcher-key-misspelt"),
    (
        "same network leaves no endpoint",
        f"{TWO} --machine_rank 0 --num_processes 8 --same_network --rdzv_backend c10d train.py",
        {},
        "master-address-unreachable",
    ),
    (
        "c10d without endpoint",
        "torchrun --nnodes 2 --rdzv_backend c10d --nproc_per_node 4 train.py",
        {},
        "master-address-unreachable",
    ),
    (
        "compile inside DataParallel",
        "accelerate launch --num_processes 1 --dynamo_backend inductor train.py",
        {},
        "trainer-implicit-dataparallel",
    ),
    (
        "compile under DeepSpeed",
        "accelerate launch --use_deepspeed --zero_stage 2 --num_processes 4 --dynamo_backend inductor train.py",
        {},
        "compile-request-lost",
    ),
    ("variables of accelerate", "ACCELERATE_DYNAMO_BACKEND=INDUCTOR python train.py", {}, "accelerate-variables-left-over"),
    (
        "ids replace the variable",
        "CUDA_VISIBLE_DEVICES=2,3 accelerate launch --gpu_ids 0,1 --num_processes 2 --multi_gpu train.py",
        {},
        "gpu-selection-ignored",
    ),
    (
        "hostfile None",
        f"{DEEPSPEED} train.py",
        {},
        "deepspeed-hostfile-missing",
    ),
    (
        "stale .deepspeed_env",
        f"{DEEPSPEED} train.py",
        {"files": {".deepspeed_env": "A=1\nA=2\n"}},
        "stale-deepspeed-env",
    ),
    ("tasks of srun", "srun -n 4 python train.py", {}, "ranks-train-independently"),
    ("processes of mpirun", "mpirun -np 4 python train.py", {}, "ranks-train-independently"),
    ("no process at all", "accelerate launch --use_fsdp train.py", {"gpus": 0}, "launcher-config-invalid"),
)


@pytest.mark.parametrize(("line", "known", "entry"), [pytest.param(*row, id=name) for name, *row in (*FREQUENT, *SILENT)])
def test_each_fault_has_its_finding_with_a_change(line: str, known: dict[str, Any], entry: str) -> None:
    asked = request(line, **known)
    found = {one.entry: one for one in findings(plan(asked), asked, PACK)}
    assert entry in found
    assert any(fix.text for fix in found[entry].fix)


@pytest.mark.parametrize(
    ("line", "gpus", "titles"),
    [
        ("srun -n 4 python train.py", 4, ["Hand Slurm's numbers to torch"]),
        ("mpirun -np 4 python train.py", 4, ["Hand MPI's numbers to torch"]),
        ("torchrun --nproc_per_node 4 train.py", 0, ["Give the processes their GPUs back", "Say that the CPU is wanted"]),
    ],
)
def test_processes_that_train_alone_get_the_change_for_their_own_reason(line: str, gpus: int, titles: list[str]) -> None:
    asked = request(line, gpus=gpus)
    found = next(one for one in findings(plan(asked), asked, PACK) if one.entry == "ranks-train-independently")
    assert [fix.title for fix in found.fix] == titles


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("torchrun --nproc_per_node 4 train.py", {}),
        ("torchrun --nnodes 2 --node_rank 1 --master_addr node-0 --nproc_per_node 4 train.py", {}),
        (f"{TWO} --machine_rank 1 --num_processes 8 train.py", {}),
        ("srun -N 2 bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr n --nproc_per_node 4 t.py'", {}),
        (NAMED, config("MULTI_GPU")),
        (NAMED, config("FSDP", "fsdp_config:", "  fsdp_version: 2", "rdzv_backend: static", "same_network: true")),
        ("CUDA_VISIBLE_DEVICES=2,3 deepspeed train.py", {}),
        ("CUDA_VISIBLE_DEVICES=1 python train.py", {}),
        ("CUDA_VISIBLE_DEVICES= python train.py", script("args = TrainingArguments('o', use_cpu=True)\n")),
        (
            "torchrun --nproc_per_node 4 train.py --fp16",
            script(f'{TRAINER}Trainer(get_peft_model(AutoModel.from_pretrained("m", torch_dtype=torch.float16)))\n'),
        ),
        (
            "torchrun --nproc_per_node 4 train.py",
            script(f"{TRAINER}Trainer(GPT2LMHeadModel(c), compute_metrics=f, preprocess_logits_for_metrics=g)\n"),
        ),
        ("torchrun --nproc_per_node 4 train.py", script("# device_map='auto' would spread it\nDistributedDataParallel(m)\n")),
        ("CUDA_VISIBLE_DEVICES=0 python nb.py", script("notebook_launcher(train, num_processes=4)\nm.to('cuda')\n", "nb.py")),
    ],
)
def test_a_start_that_is_right_has_no_finding(line: str, known: dict[str, Any]) -> None:
    asked = request(line, **known)
    assert findings(plan(asked), asked, PACK) == ()
