"""What a plan shows that seldom was meant: losses without a message, leftovers of the shell, words in the wrong place."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from firstfault.ingest.launcher_options import TORCHRUN_OPTIONS
from firstfault.launch.plan_code import code_facts
from firstfault.launch.plan_facts import at, fact, place
from firstfault.launch.plan_meeting import meeting
from firstfault.launch.plan_script import Script
from firstfault.launch.request import Request
from firstfault.launch.spelling import distributed_type_meant
from firstfault.launch.values import origin_of
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.plan import NoEffect, Plan

_TRUE = frozenset({"1", "true", "yes", "y", "on", "t"})
_ALONE = "DistributedType.NO"
_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LAUNCHER_WORDS = {
    "accelerate": frozenset(
        {
            "--num_processes", "--num_machines", "--machine_rank", "--main_process_ip", "--main_process_port", "--multi_gpu",
            "--gpu_ids", "--use_deepspeed", "--use_fsdp", "--config_file", "--same_network", "--rdzv_backend",
        }
    ),
    "torchrun": frozenset(TORCHRUN_OPTIONS) - {"--module", "--role", "--log_dir", "--run_path", "--start_method", "--tee"},
    "deepspeed": frozenset({"--num_gpus", "--num_nodes", "--include", "--exclude", "--hostfile"}),
}  # fmt: skip
_SWITCHES = frozenset({"--multi_gpu", "--use_deepspeed", "--use_fsdp", "--same_network", "--standalone", "--no_python"})
_MODES = {"FSDP is not used": "--use_fsdp", "DeepSpeed is not used": "--use_deepspeed"}
_PET = (
    "PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_STANDALONE", "PET_RDZV_ENDPOINT", "PET_RDZV_ID",
    "PET_VIRTUAL_LOCAL_RANK",
)  # fmt: skip
# Each with the value that changes nothing.
_ACCELERATE = {
    "ACCELERATE_MIXED_PRECISION": "no", "ACCELERATE_DYNAMO_BACKEND": "no", "ACCELERATE_USE_CPU": "false",
    "ACCELERATE_USE_DEEPSPEED": "false", "ACCELERATE_USE_FSDP": "false", "ACCELERATE_TORCH_DEVICE": "",
    "ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "1",
}  # fmt: skip
_IN_THE_FILE = frozenset(
    {
        "gradient_accumulation_steps", "gradient_clipping", "zero_stage", "offload_optimizer_device", "offload_param_device",
        "offload_param_nvme_path", "offload_optimizer_nvme_path", "zero3_save_16bit_model", "mixed_precision",
    }
)  # fmt: skip
"""Keys that accelerate refuses beside `deepspeed_config_file` (utils/dataclasses.py, DeepSpeedPlugin)."""
_BETWEEN_MACHINES = ("same_network",)
"""`accelerate config` writes it for one machine too, where it decides nothing."""
_LISTED = 8
_UNKNOWN_KEYS = lazy_pattern(r"had unknown keys \(([^)]{1,400})\)", needs="had unknown keys")
_NO_TYPE = lazy_pattern(r"'([^']{1,60})' is not a valid DistributedType", needs="DistributedType")
_DEFAULT_NAME = "default_config.yaml"


def oddities(plan: Plan, inner: Request, request: Request, script: Script) -> Iterator[Fact]:
    """Facts of one plan; `inner` is the request as the launcher gets it, `request` as it was typed."""
    yield from _lost(plan)
    yield from _refused(plan)
    yield from _alone(plan, script)
    yield from _words(plan, script)
    yield from _leftovers(plan, inner, request)
    yield from _files(plan, inner)
    yield from _default_worker(plan)
    yield from _devices(plan, inner, script)
    yield from _on_cpu(plan, inner)
    yield from _not_compiled(plan)
    yield from meeting(plan, inner)
    yield from code_facts(plan, inner, script)


def _lost(plan: Plan) -> Iterator[Fact]:
    """What was given and changes nothing, where that surprises."""
    names = {
        "never_read": "plan.keys_never_read",
        "unknown_key": "plan.keys_unknown",
        "table_off": "plan.tables_without_mode",
        "mode_off": "plan.options_without_mode",
        "file_wins": "plan.options_beaten",
    }
    for rule, name in names.items():
        lost = [one for one in plan.no_effect if one.rule == rule and not (plan.nnodes == 1 and one.key in _BETWEEN_MACHINES)]
        if lost:
            yield _listed(name, lost)
        near = [one for one in lost if one.meant]
        if near:
            yield _listed("plan.keys_misspelt", near)
            yield fact("plan.keys_meant", ", ".join(one.meant for one in near[:_LISTED]), near[0].where)
    off = next((one for one in plan.no_effect if one.rule == "mode_off"), None)
    if off is not None and off.why in _MODES:
        yield fact("plan.mode_missing", _MODES[off.why], off.key)
    fields = set(plan.env_set.get("ACCELERATE_CONFIG_DS_FIELDS", "").split(","))
    if "deepspeed_config_file" in fields and fields & _IN_THE_FILE:
        yield fact("launch.ds_config_ignored", True, "ACCELERATE_CONFIG_DS_FIELDS")
        repeated = sorted(fields & _IN_THE_FILE)
        yield fact("plan.repeated_keys", ", ".join(repeated), "ACCELERATE_CONFIG_DS_FIELDS")
        paths = (key if key == "mixed_precision" else f"deepspeed_config.{key}" for key in repeated)
        yield fact("plan.repeated_paths", ", ".join(paths), "ACCELERATE_CONFIG_DS_FIELDS")


def _listed(name: str, lost: list[NoEffect]) -> Fact:
    first = lost[0]
    return fact(name, ", ".join(one.key for one in lost[:_LISTED]), first.where, place(first.where))


def _refused(plan: Plan) -> Iterator[Fact]:
    """What of its file the launcher stops at: keys, or the mode, with what was meant."""
    said = plan.error.message if plan.error is not None else ""
    keys = _UNKNOWN_KEYS.search(said)
    if keys:
        yield fact("launch.refused_keys", keys[1], said)
    kind = _NO_TYPE.search(said)
    meant = distributed_type_meant(kind[1]) if kind else None
    if meant is not None:
        yield fact("launch.distributed_type_meant", meant, said)


def _alone(plan: Plan, script: Script) -> Iterator[Fact]:
    """Several processes that no process group connects."""
    first, several = plan.rank0, (plan.nproc_per_node or 0) > 1 or (plan.world_size or 0) > 1
    if first is None or first.distributed_type is None or not several:
        return
    alone = first.distributed_type == _ALONE
    if plan.starter == "torchelastic":
        yield fact("plan.alone", alone and first.visible_gpus == 0, "no GPU is visible")
    elif plan.starter in ("srun", "mpirun"):
        joined = script.makes_ranks or plan.lightning is not None or plan.tool not in ("srun", "mpirun")
        # On a CPU accelerate joins the processes of mpirun by their variables.
        by_variables = plan.starter == "mpirun" and not first.visible_gpus
        yield fact("plan.alone", alone and not joined and not by_variables, f"{plan.starter} sets no RANK")


def _with_values(names: Sequence[str], words: Sequence[str]) -> Iterator[str]:
    """The options with their values, as they are written."""
    for name in dict.fromkeys(names):
        place = next(index for index, word in enumerate(words) if word.partition("=")[0] == name)
        value = words[place + 1] if place + 1 < len(words) else "-"
        is_alone = "=" in words[place] or f"--{name[2:].replace('-', '_')}" in _SWITCHES or value.startswith("-")
        yield words[place] if is_alone else f"{words[place]} {value}"


def _words(plan: Plan, script: Script) -> Iterator[Fact]:
    """Words of the command line that do not mean what their writer meant."""
    if plan.tool in _LAUNCHER_WORDS:
        known = _LAUNCHER_WORDS[plan.tool]
        given = [word.partition("=")[0] for word in script.words if word.startswith("--")]
        behind = [word for word in given if f"--{word[2:].replace('-', '_')}" in known and not script.reads(word)]
        yield fact("plan.flags_behind_script", ", ".join(dict.fromkeys(behind)), f"behind {script.name}")
        if behind:
            yield fact("plan.words_behind_script", ", ".join(_with_values(behind, script.words)), f"behind {script.name}")
        if script.name.lower() in ("true", "false"):
            yield fact("launch.switch_value_as_script", True, script.name)
        if script.name.rpartition("/")[2].startswith("python") and not script.name.endswith(".py"):
            yield fact("plan.interpreter_as_script", True, script.name)
    adds = any(word.startswith(("--local_rank=", "--local-rank=")) for word in script.words[:1])
    if adds and script.refuses_local_rank:
        yield fact("plan.local_rank_refused", True, script.words[0].partition("=")[0])
    if script.spread is not None and plan.starter in ("torchelastic", "deepspeed"):
        yield fact("plan.device_map", script.spread, script.name)
        yield fact("plan.models_loaded", script.models, script.name)


def _leftovers(plan: Plan, inner: Request, request: Request) -> Iterator[Fact]:
    """Variables of an earlier start or of the platform that decide this one."""
    if plan.tool == "accelerate" and plan.starter == "torchelastic":
        acting = [name for name in _PET if str(inner.variable(name) or "") not in ("", "0", "1", "1:1", "false")]
        if acting or inner.variable("PET_STANDALONE") == "1":
            yield fact("plan.elastic_variables", ", ".join(acting or ["PET_STANDALONE"]), (acting or ["PET_STANDALONE"])[0])
    if plan.tool not in ("accelerate", "files"):
        acting = [name for name, idle in _ACCELERATE.items() if str(inner.variable(name) or idle).lower() not in (idle, "")]
        if acting:
            yield fact("plan.accelerate_variables", ", ".join(acting), acting[0])
    left = [name for name in _RANKS if request.variable(name) is not None]
    if plan.starter == "python" and "LOCAL_RANK" in left and plan.rank0 is not None:
        missing = plan.rank0.init_missing_env
        world = inner.variable("WORLD_SIZE") or "1"
        if missing or world not in ("", "1"):
            yield fact("env.rank_variables", "partial" if missing else "stale", "LOCAL_RANK")
            yield fact("plan.rank_variables", ", ".join(left), "LOCAL_RANK")


def _files(plan: Plan, inner: Request) -> Iterator[Fact]:
    """Files that are there and are not read, or are read and were not meant."""
    file = origin_of(plan, "config_file")
    if plan.tool == "accelerate" and file is not None and file.value is None and inner.variable("ACCELERATE_USE_CPU") is None:
        from firstfault.launch.accelerate_config import default_path

        usual = posixpath.join(inner.home, ".cache", "huggingface", "accelerate", _DEFAULT_NAME)
        looked = default_path(inner)
        other = next((path for path in (usual, _DEFAULT_NAME) if path != looked and inner.read(path) is not None), None)
        if other is not None and "--cpu" not in file.where:
            yield fact("plan.config_elsewhere", other, looked)
            yield fact("plan.config_looked_for", looked, looked)
    if plan.starter == "deepspeed":
        lines = [line for line in (inner.read(".deepspeed_env") or "").splitlines() if "=" in line]
        names = [line.partition("=")[0].strip() for line in lines]
        if len(set(names)) < len(names) or (plan.tool == "accelerate" and names):
            yield fact("plan.deepspeed_env", len(lines), ".deepspeed_env")


def _default_worker(plan: Plan) -> Iterator[Fact]:
    """A single worker where none was counted."""
    count = origin_of(plan, "nproc_per_node")
    if plan.tool == "torchrun" and count is not None and count.source == "default" and plan.nproc_per_node == 1:
        yield fact("plan.default_one_worker", True, "no --nproc_per_node")


def _devices(plan: Plan, inner: Request, script: Script) -> Iterator[Fact]:
    """A selection that leaves no GPU, or one that another replaces."""
    row = origin_of(plan, "CUDA_VISIBLE_DEVICES")
    if row is not None and row.overrode and str(row.value) != str(row.overrode[0].value):
        yield fact("plan.devices_replaced", str(row.overrode[0].value), *at(row))
        yield fact("plan.devices_in_force", str(row.value), *at(row))
    first = plan.processes[0] if plan.processes else None
    if first is None or not inner.machine.gpus or first.visible != () or script.wants_cpu:
        return
    listed = first.env.get("CUDA_VISIBLE_DEVICES", plan.env_set.get("CUDA_VISIBLE_DEVICES"))
    listed = inner.variable("CUDA_VISIBLE_DEVICES") if listed is None else listed
    if listed is not None and plan.env_set.get("ACCELERATE_USE_CPU", "").lower() not in _TRUE:
        empty = listed.strip() in ("", "-1", "none", "NoDevFiles")
        yield fact("plan.gpus_hidden" if empty else "plan.gpus_absent", listed or "(empty)", *at(row))


def _not_compiled(plan: Plan) -> Iterator[Fact]:
    """torch.compile that accelerate was asked for and that its launcher does not hand on."""
    lost = next((one for one in plan.no_effect if "dynamo" in one.key and "deepspeed_launcher" in one.why), None)
    if lost is not None:
        yield fact(
            "plan.compile_lost", "accelerate's launcher for DeepSpeed does not hand it on", lost.where, place(lost.where)
        )


def _on_cpu(plan: Plan, inner: Request) -> Iterator[Fact]:
    """A CPU that was asked for and is not used, or is used with one thread."""
    first = plan.rank0
    if first is None or first.device is None:
        return
    told = plan.env_set.get("ACCELERATE_USE_CPU", inner.variable("ACCELERATE_USE_CPU") or "").lower() in _TRUE
    lost = next((one for one in plan.no_effect if one.key == "use_cpu"), None)
    if (told or lost is not None) and first.device.startswith("cuda"):
        where = lost.where if lost is not None else at(origin_of(plan, "launcher"))[0]
        yield fact("plan.trainer_ignores_cpu", True, where, place(where))
    threads = plan.env_set.get("OMP_NUM_THREADS")
    if threads == "1" and first.device.startswith("cpu") and (inner.machine.cpus or 2) > (plan.nproc_per_node or 1):
        yield fact("plan.one_thread", True, *at(origin_of(plan, "OMP_NUM_THREADS")))
        if inner.machine.cpus and plan.nproc_per_node:
            yield fact("plan.threads_each", max(1, inner.machine.cpus // plan.nproc_per_node), "cores over processes")
