"""What a DeepSpeed file shows before anything runs: its batch numbers, values that nobody fills in, keys that nobody reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from firstfault.launch.spelling import nearest
from firstfault.model.fact import Fact, Setting

if TYPE_CHECKING:
    from firstfault.model.bundle import SourceReport
    from firstfault.model.fact import FactValue

_TOTAL, _MICRO, _STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


def _both(*names: str) -> Iterator[str]:
    """Keys that may be written with and without the stage in front."""
    for name in names:
        yield name
        yield f"stage3_{name}"


# Top-level keys that DeepSpeed 0.18.2 reads (runtime/config.py and the configurations that it builds).
KEYS = frozenset(
    {
        _TOTAL, _MICRO, _STEPS, "steps_per_print", "gradient_clipping", "prescale_gradients", "gradient_predivide_factor",
        "communication_data_type", "seq_parallel_communication_data_type", "sparse_gradients", "dump_state", "fp16", "bf16",
        "bfloat16", "amp", "zero_optimization", "zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "optimizer",
        "scheduler", "activation_checkpointing", "wall_clock_breakdown", "memory_breakdown", "flops_profiler", "comms_logger",
        "tensorboard", "wandb", "csv_monitor", "comet", "autotuning", "elasticity", "data_efficiency", "curriculum_learning",
        "data_types", "compression_training", "sparse_attention", "aio", "checkpoint", "dataloader_drop_last", "nebula",
        "pipeline", "use_data_before_expert_parallelism", "hybrid_engine", "eigenvalue", "progressive_layer_drop",
        "disable_allgather", "timers", "compile", "tensor_parallel", "weight_quantization", "monitor_config",
        "graph_harvesting",        "torch_autocast", "zenflow", "gradient_accumulation_dtype",
    }
)  # fmt: skip

# Keys of the tables in which DeepSpeed 0.19.8 allows no other ones (runtime/zero/config.py, offload_config.py,
# precision_config.py: pydantic models with extra="forbid"). "auto" of the Trainer is resolved before.
TABLES: Mapping[str, frozenset[str]] = {
    "zero_optimization": frozenset(
        {
            "stage", "contiguous_gradients", "reduce_scatter", "reduce_bucket_size", "use_multi_rank_bucket_allreduce",
            "allgather_partitions", "allgather_bucket_size", "overlap_comm", "compute_grad_norm", "load_from_fp32_weights",
            "elastic_checkpoint", "offload_param", "offload_optimizer", "zenflow", "sub_group_size", "cpu_offload_param",
            "cpu_offload_use_pin_memory", "cpu_offload", "ignore_unused_parameters", "legacy_stage1", "round_robin_gradients",
            "parameter_alignment", "zero_hpz_partition_size", "zero_quantized_weights", "zero_quantized_nontrainable_weights",
            "zero_quantized_gradients", "memory_efficient_linear", "pipeline_loading_checkpoint", "override_module_apply",
            "log_trace_cache_warnings", "enable_sanity_checks", "save_muon_momentum_buffer_in_memory", "leaf_module",
            "stage3_gather_fp16_weights_on_model_save", "mics_shard_size", "mics_hierarchical_params_gather",
            *_both("prefetch_bucket_size", "param_persistence_threshold", "model_persistence_threshold", "max_live_parameters"),
            *_both("max_reuse_distance", "gather_16bit_weights_on_model_save", "module_granularity_threshold"),
            *_both("use_all_reduce_for_fetch_params", "allgather_sequential"),
        }
    ),
    "zero_optimization.offload_param": frozenset(
        {"device", "nvme_path", "buffer_count", "buffer_size", "max_in_cpu", "pin_memory"}
    ),
    "zero_optimization.offload_optimizer": frozenset(
        {
            "device", "nvme_path", "buffer_count", "pin_memory", "pipeline_read", "pipeline_write", "fast_init", "ratio",
            "super_offload", "cpuadam_cores_perc", "pipeline",
        }
    ),
    "bf16": frozenset(
        {"enabled", "immediate_grad_update", "check_grad_overflow", "bf16_master_weights_and_grads", "bf16_optimizer_states"}
    ),
    "fp16": frozenset(
        {
            "enabled", "auto_cast", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
            "consecutive_hysteresis", "min_loss_scale", "fp16_master_weights_and_grads",
        }
    ),
}  # fmt: skip


def file_facts(report: SourceReport, world_size: int | None, framework: str | None) -> Iterator[Fact]:
    """Facts of one DeepSpeed file in a run of so many processes, whose loop is that of `framework` (None: not known)."""
    settings = {setting.key: setting for setting in report.settings}
    yield from _batch(settings, world_size)
    unfilled = [setting for setting in settings.values() if setting.value == "auto"]
    if unfilled and framework in ("torch", "lightning"):
        names = ", ".join(setting.key for setting in unfilled[:6])
        yield _fact("plan.auto_unfilled", names, unfilled[:6])
    yield from _refused(settings)
    yield from _two_precisions(settings)
    top = {key.partition(".")[0]: setting for key, setting in settings.items()}
    wrong = {key: near for key in top if key not in KEYS and (near := nearest(key, KEYS)) is not None}
    if wrong:
        listed = ", ".join(f"{key} (near {near})" for key, near in wrong.items())
        yield _fact("plan.deepspeed_keys_misspelt", listed, [top[key] for key in wrong])
        yield _fact("plan.deepspeed_keys", ", ".join(wrong), [top[key] for key in wrong])
        yield _fact("plan.deepspeed_keys_meant", ", ".join(wrong.values()), [top[key] for key in wrong])


def _refused(settings: Mapping[str, Setting]) -> Iterator[Fact]:
    """Keys of tables in which an unknown key stops DeepSpeed, and what was meant if that can be told."""
    wrong: dict[str, str | None] = {}
    for key in settings:
        table, _, name = key.rpartition(".")
        if table in TABLES and name not in TABLES[table]:
            wrong[key] = nearest(name, TABLES[table])
    if not wrong:
        return
    shown = [settings[key] for key in wrong]
    yield _fact("plan.deepspeed_keys_refused", ", ".join(f"{key}" for key in wrong), shown)
    if all(wrong.values()):
        yield _fact("plan.deepspeed_refused_meant", ", ".join(str(near) for near in wrong.values()), shown)


def _two_precisions(settings: Mapping[str, Setting]) -> Iterator[Fact]:
    on = [settings[key] for key in ("fp16.enabled", "bf16.enabled", "bfloat16.enabled") if key in settings]
    both = [setting for setting in on if setting.value is True]
    if len(both) > 1:
        yield _fact("plan.deepspeed_two_precisions", True, both)


def _batch(settings: Mapping[str, Setting], world_size: int | None) -> Iterator[Fact]:
    """The total of the file, and what its factors make of the processes; without a number of them, what they can make."""
    total, micro, steps = (_number(settings.get(key)) for key in (_TOTAL, _MICRO, _STEPS))
    shown = [settings[key] for key in (_TOTAL, _MICRO, _STEPS) if key in settings]
    if total is None or micro is None:
        return
    factors = micro * (1 if steps is None else steps)
    yield _fact("plan.batch_total", total, shown)
    if world_size is not None and steps is not None:
        yield _fact("plan.batch_product", factors * world_size, shown)
        yield _fact("plan.batch_world", world_size, shown)
    elif factors and total % factors:
        yield _fact("plan.batch_indivisible", factors, shown)


def _number(setting: Setting | None) -> int | None:
    value = setting.value if setting is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _fact(name: str, value: FactValue, shown: list[Setting]) -> Fact:
    return Fact(name=name, value=value, origin="DeepSpeed file", spans=tuple(one.span for one in shown), basis="derived")
