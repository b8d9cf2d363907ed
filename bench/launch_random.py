"""Hold `plan` against the real `accelerate launch` on random flags, files, variables and GPU counts.

`python bench/launch_random.py --seed 1 --count 500 --python INTERPRETER`: the interpreter needs torch and accelerate
(`--path FOLDER` puts another release of accelerate before its own). Prints every difference and ends with `N/M`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from launch_grid import BESIDES, PROMISED, differences, request_of

from firstfault.launch.accelerate_flags import dynamo_choices, flags
from firstfault.launch.accelerate_names import LATEST, distributed_types, keys
from firstfault.launch.flag_table import Flag
from firstfault.launch.plan import plan_known

ORACLE = Path(__file__).with_name("launch_oracle.py")
NOT_HERE = ("--mpirun_hostfile", "--env", "--vm", "--fp8_override_linear_precision")
TABLES = {
    "fsdp_config": "fsdp_", "deepspeed_config": "", "dynamo_config": "dynamo_", "megatron_lm_config": "megatron_lm_",
    "parallelism_config": "parallelism_config_",
}  # fmt: skip
DEEPSPEED = (
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device", "zero3_init_flag",
    "deepspeed_config_file", "deepspeed_multinode_launcher", "deepspeed_hostfile", "deepspeed_inclusion_filter",
)  # fmt: skip


def random_case(draw: random.Random) -> dict[str, Any]:
    """One case; most combinations are legal, some are not."""
    case: dict[str, Any] = {"gpus": draw.choice((0, 1, 2, 4, 8))}
    if draw.random() < 0.6:
        case["default_yaml" if draw.random() < 0.2 else "yaml"] = _file(draw)
    case["cli"] = _command_line(draw)
    if draw.random() < 0.35:
        case["env"] = _environment(draw)
    if draw.random() < 0.15:
        case["ports_in_use"] = draw.sample((29500, 29501, 12345), 1)
    if draw.random() < 0.1:
        case["bf16"] = False
    if draw.random() < 0.2:
        case["script_args"] = draw.choice((["--num_processes", "2"], ["-x"], ["--", "y"]))
    return case


def _word(draw: random.Random, flag: Flag) -> str:
    if flag.choices == "dynamo backends":
        return draw.choice(dynamo_choices(LATEST))
    if flag.choices:
        return draw.choice(tuple(flag.choices))
    if flag.name in ("num_processes", "num_machines", "machine_rank"):
        return draw.choice(("0", "1", "1", "2", "2", "4", "8", "16", "-1"))
    if flag.kind == "int":
        return draw.choice(("0", "1", "2", "3", "29501", "29500", "12345"))
    if flag.kind == "float":
        return draw.choice(("0.5", "1", "1e-3"))
    if flag.name == "gpu_ids":
        return draw.choice(("all", "0", "0,1", "1,0", "2", "0,1,2,3", ""))
    if flag.name == "rdzv_backend":
        return draw.choice(("static", "c10d"))
    if flag.name == "rdzv_conf":
        return draw.choice(("", "timeout=60", "join_timeout=5,x=1", "bad"))
    if flag.name == "main_process_ip":
        return draw.choice(("10.0.0.1", "localhost"))
    if flag.name == "tee":
        return draw.choice(("0", "3", "0:3", "9"))
    if flag.name == "deepspeed_multinode_launcher":
        return draw.choice(("pdsh", "standard", "openmpi", "nossh", "slurm"))
    return draw.choice(("true", "false", "cpu", "none", "X", "FULL_SHARD"))


def _command_line(draw: random.Random) -> list[str]:
    table = [flag for flag in flags(LATEST) if flag.names[0] not in NOT_HERE and flag.name != "config_file"]
    common = [
        flag
        for flag in table
        if flag.name in ("num_processes", "num_machines", "machine_rank", "main_process_ip", "multi_gpu", "gpu_ids", "cpu",
                         "use_fsdp", "use_deepspeed", "mixed_precision", "dynamo_backend", "main_process_port", "rdzv_backend",
                         "same_network", "use_megatron_lm", "use_parallelism_config")
    ]  # fmt: skip
    chosen = draw.sample(common, draw.choice((0, 0, 1, 1, 2, 2, 3, 4))) + draw.sample(table, draw.choice((0, 0, 0, 1, 2, 4)))
    words: list[str] = []
    for flag in dict.fromkeys(flag.names for flag in chosen):
        row = next(one for one in chosen if one.names == flag)
        name = draw.choice(row.names)
        name = name.replace("_", "-") if name.startswith("--") and draw.random() < 0.2 else name
        if row.kind in ("on", "off"):
            words.append(name)
        elif draw.random() < 0.2 and name.startswith("--"):
            words.append(f"{name}={_word(draw, row)}")
        else:
            words += [name, _word(draw, row)]
    return _odd(draw, words)


def _odd(draw: random.Random, words: list[str]) -> list[str]:
    """Now and then a word that argparse takes in its own way: twice the same option, a shortened one, a value of a switch."""
    if draw.random() > 0.12:
        return words
    more = (
        ["--num_processes", "2"], ["--num_proc", "2"], ["--multi_gpu=1"], ["--num_processes"], ["--mixed_precision=FP16"],
        ["--num_processes=2=3"], ["--same_network", "--rdzv_backend=c10d"],
        ["--gpu_ids", "GPU-1,GPU-2"], ["--main_process_port=-1"],
        ["--num_machines", "1.0"], ["-m"], ["--no_python"], ["--nproc_per_node", "2"], ["--num_processes", "０"],
        ["--num_processes", " 2 "], ["--num_processes", "1_0"], ["--config_file"], ["--main_process_ip", ""],
    )  # fmt: skip
    return [*words, *draw.choice(more)] if draw.random() < 0.7 else [*draw.choice(more), *words]


def _value(draw: random.Random) -> Any:
    return draw.choice((True, False, 0, 1, 2, 4, "1", "2", "true", "no", "NO", "INDUCTOR", "cpu", None, "FULL_SHARD"))


def _file(draw: random.Random) -> dict[str, Any] | str:
    if draw.random() < 0.03:
        return draw.choice(("", "[]\n", "a: [\n", "distributed_type: NO\nnum_processes: 1\n", "- 1\n", "x\n"))
    common = ("NO", "MULTI_GPU", "FSDP", "DEEPSPEED", "MULTI_CPU", "MEGATRON_LM")
    kind = draw.choice(common) if draw.random() < 0.9 else draw.choice((*distributed_types(LATEST), "DDP", False))
    content: dict[str, Any] = {"distributed_type": kind, "num_processes": draw.choice((1, 2, 4, 8, 16, "2", "auto"))}
    if draw.random() < 0.5:
        content.update(compute_environment="LOCAL_MACHINE", machine_rank=0, num_machines=1)
    if draw.random() < 0.15:
        content.update(num_machines=2, main_process_ip="10.0.0.1", main_process_port=draw.choice((29501, 0, None)))
    if draw.random() < 0.15:
        del content["num_processes"]
    for name in draw.sample(keys(LATEST), draw.choice((0, 0, 1, 2, 3))):
        if name.endswith("_config"):
            continue
        content[name] = _value(draw) if draw.random() < 0.3 else _plausible(draw, name, content.get(name))
    for table, prefix in TABLES.items():
        if draw.random() < 0.3 or (table.startswith(str(kind).lower()) and draw.random() < 0.8):
            content[table] = _table(draw, table, prefix)
    if draw.random() < 0.05:
        content[draw.choice(("num_gpus", "ipex_config", "fp16", "dynamo_backend"))] = draw.choice((1, True, "INDUCTOR", "NO"))
    return content


def _plausible(draw: random.Random, name: str, present: Any) -> Any:
    return {
        "mixed_precision": draw.choice(("no", "fp16", "bf16")),
        "use_cpu": draw.random() < 0.5,
        "debug": draw.random() < 0.5,
        "gpu_ids": draw.choice(("all", "0", "0,1", "2,3")),
        "main_process_ip": "10.0.0.1",
        "main_process_port": draw.choice((29501, 12345)),
        "rdzv_backend": draw.choice(("static", "c10d")),
        "same_network": draw.random() < 0.5,
        "compute_environment": "LOCAL_MACHINE",
    }.get(name, present)


def _table(draw: random.Random, table: str, prefix: str) -> dict[str, Any]:
    names = DEEPSPEED if table == "deepspeed_config" else [flag.name for flag in flags(LATEST) if flag.name.startswith(prefix)]
    content = {}
    for name in draw.sample(list(names), min(len(names), draw.choice((0, 1, 2, 3, 5)))):
        shown = name.removeprefix(prefix) if prefix and draw.random() < 0.2 else name
        content[shown] = draw.choice((True, False, 1, 2, "true", "2", "X"))
    if "dynamo_backend" in content:
        content["dynamo_backend"] = draw.choice(("INDUCTOR", "inductor", "no", "FOO"))
    if "deepspeed_multinode_launcher" in content:
        content["deepspeed_multinode_launcher"] = draw.choice(("pdsh", "standard", "nossh"))
    return content


def _environment(draw: random.Random) -> dict[str, str]:
    values = {
        "CUDA_VISIBLE_DEVICES": ("", "0", "0,1", "1,0", "-1", "0,9", "2,2", "3", " 1 , 0", "0;1", "abc", "01", "1,,0", "+1"),
        "OMP_NUM_THREADS": ("4", "1", "0", "-2", "x", ""),
        "ACCELERATE_MIXED_PRECISION": ("fp16",),
        "ACCELERATE_DYNAMO_BACKEND": ("INDUCTOR",),
        "MASTER_ADDR": ("10.9.9.9",),
        "MASTER_PORT": ("12345",),
        "LOCAL_RANK": ("0", "1"),
        "WORLD_SIZE": ("4",),
        "PET_NNODES": ("2", "1:2"),
        "PET_STANDALONE": ("1",),
        "PET_NPROC_PER_NODE": ("4",),
        "PET_RDZV_ENDPOINT": ("10.0.0.1:4000",),
        "PET_NODE_RANK": ("1",),
        "PET_MAX_RESTARTS": ("3",),
        "NCCL_P2P_DISABLE": ("1",),
        "PET_MASTER_ADDR": ("10.0.0.2",),
        "PET_MASTER_PORT": ("4001", "x"),
        "PET_RDZV_ID": ("job",),
        "PET_RDZV_BACKEND": ("c10d",),
        "PET_RDZV_CONF": ("timeout=5", "bad"),
        "PET_REDIRECTS": ("3", "9"),
        "PET_TEE": ("0:3",),
        "PET_LOCAL_ADDR": ("10.0.0.3",),
        "PET_LOG_DIR": ("logs",),
        "PET_ROLE": ("trainer",),
        "PET_MONITOR_INTERVAL": ("1", "x"),
        "PET_START_METHOD": ("fork", "thread"),
        # With "1" torchelastic's agent may stop, which is behind the spawn that is caught here: test_torchrun_real has it.
        "PET_VIRTUAL_LOCAL_RANK": ("0", "yes"),
        "PET_NO_PYTHON": ("1", "0"),
        "PET_MODULE": ("1",),
        "PET_RUN_PATH": ("1",),
        "MPI_LOCALNRANKS": ("4",),
        "OMPI_COMM_WORLD_LOCAL_SIZE": ("2",),
        "ACCELERATE_USE_CPU": ("true", "maybe"),
        "ACCELERATE_DEBUG_MODE": ("1",),
        "ACCELERATE_USE_FSDP": ("true",),
        "FSDP_VERSION": ("2",),
        "PYTHON_EXEC": ("/opt/python",),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": ("5",),
        "ACCELERATE_CONFIG_DS_FIELDS": ("zero_stage",),
    }
    return {name: draw.choice(values[name]) for name in draw.sample(sorted(values), draw.choice((1, 1, 2, 3, 5)))}


def recorded(cases: list[dict[str, Any]], python: str, path: str | None = None) -> list[dict[str, Any]]:
    """What the real launcher decides for each case."""
    text = "".join(json.dumps(case) + "\n" for case in cases)
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    done = subprocess.run(
        [python, str(ORACLE)], input=text, capture_output=True, text=True, env=environment, check=False, timeout=3_600
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def compare(seed: int, count: int, python: str, path: str | None = None) -> list[tuple[dict[str, Any], list[Any]]]:
    """The cases in which the plan differs from the real launcher, each with the values: name, real, planned."""
    draw = random.Random(seed)
    rows = recorded([random_case(draw) for _ in range(count)], python, path)
    if len(rows) != count:
        raise RuntimeError(f"{len(rows)} answers to {count} cases")
    names = PROMISED + tuple(name for name in BESIDES if name != "spawn")
    wrong = []
    for row in rows:
        plan = plan_known(request_of(row["case"], {**row["versions"], "deepspeed": "0.18.2"}))
        said = tuple(text for text in plan.log if text.startswith("accelerate."))
        found = list(differences(row, msgspec.structs.replace(plan, log=said), tuple(name for name in names if name in row)))
        if "oracle_failed" in row:
            found.append(("oracle", row["oracle_failed"], None))
        if found:
            wrong.append((row["case"], found))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--path")
    options = parser.parse_args()
    wrong = compare(options.seed, options.count, options.python, options.path)
    for case, found in wrong:
        print(json.dumps(case))
        for key, was, planned in found:
            print(f"    {key}: real {was!r}, planned {planned!r}")
    print(f"{options.count - len(wrong)}/{options.count}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
