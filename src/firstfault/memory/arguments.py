"""From flags, files of training arguments, accelerate's and DeepSpeed's files, and a launch plan to a `MemoryPlan`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from firstfault.errors import UsageError
from firstfault.memory.plan import (
    Attention,
    Device,
    DType,
    Evaluation,
    Lora,
    MemoryPlan,
    Optimizer,
    Parallel,
    Strategy,
)

if TYPE_CHECKING:
    from firstfault.model.plan import Plan


class Given(NamedTuple):
    """A value and the place that gave it: `--batch`, `train.yaml`."""

    value: object
    where: str


Settings = dict[str, Given]
_DTYPES: dict[str, DType] = {
    "fp32": "float32",
    "float32": "float32",
    "float": "float32",
    "no": "float32",
    "false": "float32",  # an unquoted `no` in YAML
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
}
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw_torch": Optimizer(implementation="foreach"),
    "adamw_torch_fused": Optimizer(implementation="fused"),
    "adamw": Optimizer(implementation="foreach"),
    "adamw_loop": Optimizer(implementation="loop"),
    "adamw_hf": Optimizer(implementation="loop"),
    "adamw_8bit": Optimizer(name="adamw_8bit"),
    "adamw_bnb_8bit": Optimizer(name="adamw_8bit"),
    "paged_adamw_8bit": Optimizer(name="adamw_8bit", paged=True),
    "paged_adamw_32bit": Optimizer(paged=True, implementation="fused"),
    "adamw_torch_xla": Optimizer(implementation="foreach"),
    "adamw_torch_npu_fused": Optimizer(implementation="fused"),
    "adamw_apex_fused": Optimizer(implementation="fused"),
    "adamw_anyprecision": Optimizer(implementation="loop"),
    "paged_adamw": Optimizer(paged=True, implementation="fused"),
    "adafactor": Optimizer(name="adafactor"),
    "sgd": Optimizer(name="sgd"),
    "sgd_momentum": Optimizer(name="sgd_momentum"),
    "none": Optimizer(name="none"),
}
"""By the names that the Trainer's `optim` uses."""
_ATTENTION: dict[str, Attention] = {"eager": "eager", "sdpa": "sdpa", "flash_attention_2": "flash_attention_2"}
SAME = {
    "per_device_train_batch_size": "batch",
    "train_micro_batch_size_per_gpu": "batch",
    "micro_batch_size": "batch",
    "max_seq_length": "seq",
    "max_length": "seq",
    "max_seq_len": "seq",
    "block_size": "seq",
    "cutoff_len": "seq",
    "sequence_len": "seq",
    "gradient_accumulation_steps": "accumulate",
    "gradient_checkpointing": "checkpointing",
    "attn_implementation": "attention",
    "torch_dtype": "dtype",
    "dtype": "dtype",
    "model_name_or_path": "model",
    "base_model": "model",
    "optim": "optim",
    "per_device_eval_batch_size": "eval_batch",
    "eval_accumulation_steps": "eval_accumulation",
    "lora_r": "lora",
    "lora_dropout": "lora_dropout",
    "load_in_4bit": "nf4",
    "load_in_8bit": "int8",
    "use_liger_kernel": "fused_loss",
    "mixed_precision": "mixed",
    "num_processes": "gpus",
    "zero_optimization.stage": "zero",
    "deepspeed_config.zero_stage": "zero",
    "bf16.enabled": "bf16",
    "fp16.enabled": "fp16",
    "zero_optimization.offload_optimizer.device": "offload_optimizer",
    "zero_optimization.offload_param.device": "offload_weights",
    "deepspeed_config.offload_optimizer_device": "offload_optimizer",
    "deepspeed_config.offload_param_device": "offload_weights",
    "fsdp_config.fsdp_version": "fsdp_version",
    "fsdp_config.fsdp_sharding_strategy": "fsdp_sharding",
    "fsdp_config.fsdp_activation_checkpointing": "checkpointing",
    "fsdp_config.fsdp_reshard_after_forward": "fsdp_reshard",
    "fsdp_config.reshard_after_forward": "fsdp_reshard",
    "fsdp_config.fsdp_offload_params": "fsdp_offload",
    "fsdp_config.offload_params": "fsdp_offload",
    "fsdp_config.activation_checkpointing": "checkpointing",
    "fsdp": "fsdp",
    "ddp_gradient_as_bucket_view": "bucket_view",
    "lora_target_modules": "lora_targets",
    "deepspeed": "deepspeed_file",
    "deepspeed_config.deepspeed_config_file": "deepspeed_file",
    "distributed_type": "distributed",
    "bf16": "bf16",
    "fp16": "fp16",
}


def flat(config: Mapping[str, Any], where: str, prefix: str = "") -> Settings:
    """The settings of a file that decide memory, under this module's names."""
    found: Settings = {}
    for key, value in config.items():
        path = f"{prefix}{key}"
        if path == "deepspeed" and isinstance(value, Mapping):
            found |= flat(value, where)
        elif isinstance(value, Mapping):
            found |= flat(value, where, f"{path}.")
        elif path in SAME and value is not None and value != "auto":
            found[SAME[path]] = Given(value, where)
    return found


def from_words(words: tuple[str, ...]) -> Settings:
    """The same from the arguments behind a script: `--name value`, `--name=value`, `--flag`."""
    config: dict[str, Any] = {}
    for number, word in enumerate(words):
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            follows = words[number + 1] if number + 1 < len(words) else "--"
            config[name.replace("-", "_")] = value if sign else True if follows.startswith("--") else follows
    return flat(config, "the command")


def from_launch(plan: Plan) -> Settings:
    """Devices and strategy of what a launch command will start; UsageError where it starts nothing."""
    if plan.error is not None:
        raise UsageError(f"the command stops with {plan.error.type}: {plan.error.message}")
    found: Settings = {}
    env, first = plan.env_set, plan.rank0
    world = plan.world_size or 1
    if first is not None and first.wraps_in_DataParallel and first.n_gpu:
        found |= {"parallel": Given("dp", "the launch plan"), "gpus": Given(first.n_gpu, "the launch plan")}
    elif world > 1:
        found["gpus"] = Given(world, "the launch plan")
    if env.get("ACCELERATE_USE_FSDP") == "true":
        found["parallel"] = Given("fsdp2" if env.get("FSDP_VERSION") == "2" else "fsdp1", "the launch plan")
    elif env.get("ACCELERATE_USE_DEEPSPEED") == "true":
        found["zero"] = Given(env.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", "2"), "the launch plan")
    if env.get("ACCELERATE_MIXED_PRECISION", "no") != "no":
        found["mixed"] = Given(env["ACCELERATE_MIXED_PRECISION"], "the launch plan")
    return found


def make_plan(model: str, config: dict[str, Any], given: Settings, device: Device) -> MemoryPlan:
    """The plan that these settings describe; UsageError for a value that does not exist."""
    world = _whole(given, "gpus", 1)
    weights, autocast = _types(given)
    evaluation = None
    metrics = _true(given, "metrics")
    if metrics or "eval_batch" in given or "eval_accumulation" in given:
        accumulation = _whole(given, "eval_accumulation", 0)
        evaluation = Evaluation(
            micro_batch=_whole(given, "eval_batch", 8), metrics=metrics, accumulation_steps=accumulation or None
        )
    return MemoryPlan(
        model=model,
        config=config,
        weights=weights,
        autocast=autocast,
        quantization="nf4" if _true(given, "nf4") else "int8" if _true(given, "int8") else "none",
        prepares_kbit=_true(given, "nf4") or _true(given, "int8"),
        lora=_lora(given),
        optimizer=_choice(given, "optim", OPTIMIZERS, OPTIMIZERS["adamw_torch_fused"]),
        micro_batch=max(1, _whole(given, "batch", 8)),
        seq_len=max(1, _whole(given, "seq", 512)),
        padded=_true(given, "padded"),
        accumulate=max(1, _whole(given, "accumulate", 1)),
        keeps_graphs=_true(given, "keeps_graphs"),
        checkpointing=_true(given, "checkpointing"),
        attention=_choice(given, "attention", _ATTENTION, "sdpa"),
        loss="fused" if _true(given, "fused_loss") else "upcast",
        parallel=_parallel(given, world),
        evaluation=evaluation,
        device=device,
        origins={_FACTS[name]: one.where for name, one in given.items() if name in _FACTS},
    )


_FACTS = {
    "dtype": "weights",
    "optim": "optimizer",
    "attention": "attention",
    "seq": "sequence length",
    "mixed": "autocast",
    "bf16": "autocast",
    "fp16": "autocast",
    "checkpointing": "checkpointing",
    "padded": "padding",
    "fused_loss": "loss",
}


def _types(given: Settings) -> tuple[DType, DType | None]:
    """Weights and autocast; DeepSpeed keeps its weights in the type that it computes in."""
    weights = _choice(given, "dtype", {**_DTYPES, "auto": "bfloat16"}, "float32")
    half: DType | None = "bfloat16" if _true(given, "bf16") else "float16" if _true(given, "fp16") else None
    mixed = _choice(given, "mixed", _DTYPES, half or "float32")
    if mixed == "float32" or mixed == weights:
        return cast(DType, weights), None
    return (cast(DType, mixed), None) if "zero" in given else (cast(DType, weights), cast(DType, mixed))


def _lora(given: Settings) -> Lora | None:
    rank = _whole(given, "lora", 0)
    if not rank:
        return None
    told = given["lora_targets"].value if "lora_targets" in given else ["q_proj", "v_proj"]
    targets = [str(one) for one in told] if isinstance(told, (list, tuple)) else str(told).replace(",", " ").split()
    dropout = float(str(given["lora_dropout"].value)) if "lora_dropout" in given else 0.0
    return Lora(rank=rank, targets=tuple(targets), dropout=dropout, dtype="float32")


def _parallel(given: Settings, world: int) -> Parallel:
    told = str(given["parallel"].value) if "parallel" in given else ""
    distributed = str(given["distributed"].value).upper() if "distributed" in given else ""
    if "zero" in given:
        told = f"zero{_whole(given, 'zero', 2)}"
    elif not told and (distributed == "FSDP" or _fsdp_words(given)):
        told = "fsdp2" if str(given["fsdp_version"].value if "fsdp_version" in given else 1) == "2" else "fsdp1"
    elif not told and distributed in ("NO", "FALSE"):
        told, world = "single", 1
    names: tuple[Strategy, ...] = ("single", "dp", "ddp", "fsdp1", "fsdp2", "zero0", "zero1", "zero2", "zero3")
    strategy = cast(Strategy, told or ("ddp" if world > 1 else "single"))
    if strategy not in names:
        raise UsageError(f"unknown way to spread a step: {strategy}", hint=f"known: {', '.join(names)}")
    sharded = strategy in ("fsdp1", "fsdp2")
    on_host = sharded and (_true(given, "fsdp_offload") or "offload" in _fsdp_words(given))
    return Parallel(
        strategy=strategy if world > 1 or strategy.startswith("zero") else "single",
        world=world,
        bucket_view=_true(given, "bucket_view"),
        reshard=not sharded or _reshards(given),
        offload_optimizer=on_host or _offloaded(given, "offload_optimizer"),
        offload_weights=on_host or _offloaded(given, "offload_weights"),
    )


def _fsdp_words(given: Settings) -> list[str]:
    """Trainer's `fsdp`: `full_shard auto_wrap offload`; older files hold a list."""
    told = given["fsdp"].value if "fsdp" in given else ""
    words = [str(one) for one in told] if isinstance(told, (list, tuple)) else str(told).replace(",", " ").split()
    return [] if words in (["False"], ["false"]) else words


def _reshards(given: Settings) -> bool:
    """Whether gathered weights go after forward; accelerate's old strategies are numbers or names, and 2 keeps them."""
    for name in ("fsdp_reshard", "fsdp_sharding"):
        told = str(given[name].value).upper() if name in given else ""
        if told in ("FALSE", "0", "NO", "2", "SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2", "5"):
            return False
    return "shard_grad_op" not in _fsdp_words(given)


def _offloaded(given: Settings, name: str) -> bool:
    return name in given and str(given[name].value).lower() in ("cpu", "nvme", "true")


def _choice(given: Settings, name: str, known: Mapping[str, Any], default: Any) -> Any:
    if name not in given:
        return default
    text = str(given[name].value).lower().removeprefix("torch.")
    if text not in known:
        raise UsageError(f"unknown {name} {text!r}", where=given[name].where, hint=f"known: {', '.join(known)}")
    return known[text]


def _whole(given: Settings, name: str, default: int) -> int:
    if name not in given:
        return default
    text = str(given[name].value)
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise UsageError(f"{name} is no whole number: {text!r}", where=given[name].where)
    return int(text)


def _true(given: Settings, name: str) -> bool:
    return name in given and str(given[name].value).lower() in ("true", "1", "yes", "on")
