"""The variables that `accelerate launch` hands to what it starts.

Follows `prepare_simple_launcher_cmd_env`, `prepare_multi_gpu_env` and `prepare_deepspeed_cmd_env` of
accelerate/utils/launch.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from firstfault.launch.accelerate_names import PRECISIONS, dynamo_backends
from firstfault.launch.flag_table import Arguments, str_to_bool
from firstfault.launch.request import Request, Version

Environment = dict[str, Any]
"""What the child gets; a value that is no text stops the start, as it does in accelerate."""

_FP8 = ("transformer_engine", "msamp", "torchao")


class Variable(msgspec.Struct, frozen=True):
    """One variable taken from one option: `optional` ones are left out while the option is None; `lower` writes `true`."""

    name: str
    option: str
    form: Literal["text", "lower"] = "text"
    optional: bool = False
    since: Version = ()
    until: Version = ()


_FSDP = (
    Variable("FSDP_VERSION", "fsdp_version", since=(1, 6)),
    Variable("FSDP_SHARDING_STRATEGY", "fsdp_sharding_strategy"),
    Variable("FSDP_RESHARD_AFTER_FORWARD", "fsdp_reshard_after_forward", "lower", since=(1, 6)),
    Variable("FSDP_OFFLOAD_PARAMS", "fsdp_offload_params", "lower"),
    Variable("FSDP_MIN_NUM_PARAMS", "fsdp_min_num_params"),
    Variable("FSDP_AUTO_WRAP_POLICY", "fsdp_auto_wrap_policy", optional=True),
    Variable("FSDP_TRANSFORMER_CLS_TO_WRAP", "fsdp_transformer_layer_cls_to_wrap", optional=True),
    Variable("FSDP_BACKWARD_PREFETCH", "fsdp_backward_prefetch", optional=True, since=(0, 26)),
    Variable("FSDP_BACKWARD_PREFETCH", "fsdp_backward_prefetch_policy", optional=True, until=(1, 0)),
    Variable("FSDP_STATE_DICT_TYPE", "fsdp_state_dict_type", optional=True),
    Variable("FSDP_FORWARD_PREFETCH", "fsdp_forward_prefetch", "lower", since=(0, 21)),
    Variable("FSDP_USE_ORIG_PARAMS", "fsdp_use_orig_params", "lower", since=(0, 21)),
    Variable("FSDP_CPU_RAM_EFFICIENT_LOADING", "fsdp_cpu_ram_efficient_loading", "lower", since=(0, 24)),
    Variable("FSDP_SYNC_MODULE_STATES", "fsdp_sync_module_states", "lower", since=(0, 21)),
    Variable("FSDP_ACTIVATION_CHECKPOINTING", "fsdp_activation_checkpointing", "lower", since=(0, 31)),
    Variable("FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "fsdp_activation_checkpointing_offload", "lower", since=(1, 15)),
    Variable("FSDP_IGNORED_MODULES", "fsdp_ignored_modules", optional=True, since=(1, 10)),
)
_ALWAYS_MEGATRON = ("tp_degree", "pp_degree", "gradient_clipping")
_MEGATRON = (
    "num_micro_batches", "sequence_parallelism", "recompute_activations", "use_distributed_optimizer",
)  # fmt: skip
_LATER_MEGATRON = (
    "no_load_optim", "eod_mask_loss", "no_save_optim", "optimizer_cpu_offload", "use_precision_aware_optimizer",
    "overlap_cpu_optimizer_d2h_h2d", "decoder_last_pipeline_num_layers", "recompute_granularity", "recompute_method",
    "recompute_num_layers", "attention_backend", "expert_model_parallel_size", "context_parallel_size", "attention_dropout",
    "hidden_dropout", "attention_softmax_in_fp32", "expert_tensor_parallel_size", "calculate_per_token_loss",
    "use_rotary_position_embeddings",
)  # fmt: skip
_DEEPSPEED = (
    Variable("ACCELERATE_DEEPSPEED_ZERO_STAGE", "zero_stage", optional=True),
    Variable("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "gradient_accumulation_steps", optional=True),
    Variable("ACCELERATE_GRADIENT_CLIPPING", "gradient_clipping", "lower", optional=True),
    Variable("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE", "offload_optimizer_device", "lower", optional=True),
    Variable("ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE", "offload_param_device", "lower", optional=True),
    Variable("ACCELERATE_DEEPSPEED_ZERO3_INIT", "zero3_init_flag", "lower", optional=True),
    Variable("ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL", "zero3_save_16bit_model", "lower", optional=True),
    Variable("ACCELERATE_DEEPSPEED_CONFIG_FILE", "deepspeed_config_file", optional=True),
)
_PARALLEL = (
    Variable("DP_REPLICATE_SIZE", "dp_replicate_size"),
    Variable("DP_SHARD_SIZE", "dp_shard_size"),
    Variable("TP_SIZE", "tp_size"),
    Variable("CP_SIZE", "cp_size"),
    Variable("CP_BACKEND", "cp_backend", since=(1, 12)),
    Variable("SP_SIZE", "sp_size", since=(1, 12)),
    Variable("SP_BACKEND", "sp_backend", since=(1, 12)),
)


def simple_environment(arguments: Arguments, request: Request, version: Version) -> Environment:
    """The variables of the single process of simple_launcher."""
    env = _caller(request)
    env["ACCELERATE_USE_CPU"] = str(arguments.value("cpu") or arguments.value("use_cpu"))
    _debug_and_gpus(env, arguments, version)
    _addresses(env, arguments, version)
    if (1, 8) <= version < (1, 13) or (version >= (1, 13) and str_to_bool(env["ACCELERATE_USE_CPU"])):
        env["KMP_AFFINITY"] = "granularity=fine,compact,1,0"
        env["KMP_BLOCKTIME"] = "1"
    _precision(env, arguments, request, version)
    _dynamo(env, arguments, version)
    env["OMP_NUM_THREADS"] = str(arguments.value("num_cpu_threads_per_process"))
    _affinity(env, arguments, version)
    return env


def elastic_environment(arguments: Arguments, request: Request, version: Version) -> Environment:
    """The variables of the workers of multi_gpu_launcher, before torchelastic adds its own."""
    env = _caller(request)
    _debug_and_gpus(env, arguments, version)
    _precision(env, arguments, request, version)
    _dynamo(env, arguments, version)
    if arguments.value("use_fsdp"):
        env["ACCELERATE_USE_FSDP"] = "true"
        loads = version >= (0, 24) and arguments.value("fsdp_cpu_ram_efficient_loading")
        if loads and not arguments.value("fsdp_sync_module_states"):
            raise ValueError("When using `--fsdp_cpu_ram_efficient_loading` set `--fsdp_sync_module_states` to `True`")
        _fill(env, _FSDP, arguments, version)
    if (1, 4) <= version < (1, 7) and arguments.value("use_tp"):
        env["ACCELERATE_USE_TP"] = "true"
        env["TP_SIZE"] = str(arguments.value("tp_size"))
    if arguments.value("use_megatron_lm"):
        _megatron(env, arguments, version)
    env["OMP_NUM_THREADS"] = str(arguments.value("num_cpu_threads_per_process"))
    _affinity(env, arguments, version)
    if version >= (1, 10) and arguments.value("use_parallelism_config"):
        _parallel(env, arguments, version)
    return env


def deepspeed_environment(arguments: Arguments, request: Request, version: Version, fields: str) -> Environment:
    """The variables of what deepspeed_launcher starts; `fields` are the DeepSpeed keys of the configuration, with commas."""
    env = _caller(request)
    _debug_and_gpus(env, arguments, version)
    paths = [path for path in str(env.get("PYTHONPATH", "")).split(":") if path]
    env["PYTHONPATH"] = ":".join([*paths, request.directory])
    _precision(env, arguments, request, version)
    env["ACCELERATE_CONFIG_DS_FIELDS"] = fields.lower()
    env["ACCELERATE_USE_DEEPSPEED"] = "true"
    _fill(env, _DEEPSPEED, arguments, version)
    _affinity(env, arguments, version)
    names = "deepspeed_moe_layer_cls_names"
    if version >= (0, 30) and arguments.value(names) is not None:
        env["ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES"] = str(arguments.value(names))
    if version >= (1, 12) and arguments.value("use_parallelism_config"):
        _parallel(env, arguments, version)
    return env


def changed(env: Environment, request: Request) -> dict[str, str]:
    """The variables that differ from the caller's."""
    caller = _caller(request)
    return {name: str(value) for name, value in env.items() if caller.get(name) != value}


def _caller(request: Request) -> Environment:
    return {name: str(given.value) for name, given in request.environment.items()}


def _debug_and_gpus(env: Environment, arguments: Arguments, version: Version) -> None:
    if version >= (0, 22) and arguments.value("debug"):
        env["ACCELERATE_DEBUG_MODE"] = "true"
    ids = arguments.value("gpu_ids")
    if ids != "all" and ids is not None:
        env["CUDA_VISIBLE_DEVICES"] = ids


def _addresses(env: Environment, arguments: Arguments, version: Version) -> None:
    """MASTER_ADDR and MASTER_PORT of the single process, where it is meant to be one of several."""
    machines, processes = arguments.value("num_machines"), arguments.value("num_processes")
    address, port = arguments.value("main_process_ip"), arguments.value("main_process_port")
    if version < (1, 8):
        if machines > 1:
            env["MASTER_ADDR"], env["MASTER_PORT"] = address, str(port)
            if version >= (0, 28) and arguments.value("mpirun_hostfile") is not None:
                count = arguments.get("mpirun_ccl")
                env["CCL_WORKER_COUNT"] = str(count) if version >= (0, 32) else count
            return
        meant = processes > 1
    else:
        if machines > 1 and address is None:
            raise AssertionError("When using multiple machines, you need to specify the main process IP.")
        if machines > 1 and port is None:
            raise AssertionError("When using multiple machines, you need to specify the main process port.")
        meant = (processes is not None and processes > 1) or machines > 1
    if meant:
        env["MASTER_ADDR"] = "127.0.0.1" if address is None else address
        env["MASTER_PORT"] = "29500" if port is None else str(port)
        if (1, 8) <= version < (1, 13):
            # oneCCL's bindings are taken not to be installed.
            env["CCL_WORKER_COUNT"] = "0"


def _precision(env: Environment, arguments: Arguments, request: Request, version: Version) -> None:
    word = arguments.value("mixed_precision").lower()
    if word not in PRECISIONS:
        raise ValueError(f"Unknown mixed_precision mode: {word}. Choose between {list(PRECISIONS)}.")
    env["ACCELERATE_MIXED_PRECISION"] = word
    if word != "fp8" or version < (0, 34):
        return
    if all(request.versions.get(package) == "" for package in _FP8):
        either = "Transformer Engine, MSAMP or torchao" if version >= (1, 7) else "Transformer Engine or MSAMP"
        raise RuntimeError(f"FP8 is not available on this machine. Please ensure that either {either} is installed.")
    for name, given in arguments.given.items():
        if not name.startswith("fp8_") or given.value is None:
            continue
        if name == "fp8_override_linear_precision" and version >= (1, 4):
            _override(env, given.value, version)
        else:
            env[f"ACCELERATE_{name.upper()}"] = str(given.value)


def _override(env: Environment, value: Any, version: Version) -> None:
    parts = [part.strip() for part in value.strip("()").split(",")] if version < (1, 5) else value
    convert: Callable[[Any], Any] = str if version >= (1, 9) else lambda part: part
    for place, name in enumerate(("FPROP", "DGRAD", "WGRAD")):
        env[f"ACCELERATE_FP8_OVERRIDE_{name}"] = convert(parts[place])


def _dynamo(env: Environment, arguments: Arguments, version: Version) -> None:
    word = arguments.value("dynamo_backend").upper()
    known = dynamo_backends(version)
    if word not in known:
        shown = [name for name in known if name != "NO"] if version < (0, 24) else known
        raise ValueError(f"Unknown dynamo backend: {word}. Choose between {shown}.")
    env["ACCELERATE_DYNAMO_BACKEND"] = word
    env["ACCELERATE_DYNAMO_MODE"] = arguments.value("dynamo_mode")
    env["ACCELERATE_DYNAMO_USE_FULLGRAPH"] = str(arguments.value("dynamo_use_fullgraph"))
    env["ACCELERATE_DYNAMO_USE_DYNAMIC"] = str(arguments.value("dynamo_use_dynamic"))
    if version >= (1, 7):
        env["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = str(arguments.value("dynamo_use_regional_compilation"))


def _affinity(env: Environment, arguments: Arguments, version: Version) -> None:
    if version >= (0, 29) and arguments.value("enable_cpu_affinity"):
        env["ACCELERATE_CPU_AFFINITY"] = "1"


def _fill(env: Environment, table: tuple[Variable, ...], arguments: Arguments, version: Version) -> None:
    for variable in table:
        if version < variable.since or (variable.until and version >= variable.until):
            continue
        value = arguments.get(variable.option) if variable.optional else arguments.value(variable.option)
        if value is None and variable.optional:
            continue
        text = str(value)
        env[variable.name] = text.lower() if variable.form == "lower" else text


def _megatron(env: Environment, arguments: Arguments, version: Version) -> None:
    env["ACCELERATE_USE_MEGATRON_LM"] = "true"
    later = _LATER_MEGATRON if version >= (1, 13) else ()
    table = tuple(Variable(f"MEGATRON_LM_{name.upper()}", f"megatron_lm_{name}") for name in _ALWAYS_MEGATRON)
    optional = tuple(
        Variable(f"MEGATRON_LM_{name.upper()}", f"megatron_lm_{name}", optional=True) for name in (*_MEGATRON, *later)
    )
    _fill(env, table + optional, arguments, version)
    if version >= (1, 13):
        env["MEGATRON_LM_USE_CUSTOM_FSDP"] = str(arguments.value("megatron_lm_use_custom_fsdp"))


def _parallel(env: Environment, arguments: Arguments, version: Version) -> None:
    env["ACCELERATE_USE_PARALLELISM_CONFIG"] = "true"
    prefix, option = "PARALLELISM_CONFIG_", "parallelism_config_"
    table = tuple(
        Variable(prefix + variable.name, option + variable.option, since=variable.since, until=variable.until)
        for variable in _PARALLEL
    )
    _fill(env, table, arguments, version)
    extra = []
    if arguments.value(option + "cp_size") > 1:
        extra.append("cp_comm_strategy")
    if version >= (1, 12) and arguments.value(option + "sp_size") > 1:
        extra += ["sp_seq_length", "sp_seq_length_is_variable", "sp_attn_implementation"]
    for name in extra:
        env[prefix + name.upper()] = str(arguments.value(option + name))
