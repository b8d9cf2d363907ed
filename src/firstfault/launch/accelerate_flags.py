"""The options of `accelerate launch`, with the versions that have them.

Read from accelerate/commands/launch.py of 31 releases, 0.20.3 to 1.15.0. `since` is the first version with the row, `until` the
first one without it.
"""

from __future__ import annotations

import msgspec

from firstfault.launch.flag_table import Flag
from firstfault.launch.request import Version

_BACKENDS = (
    ((0, 20), "eager aot_eager inductor nvfuser aot_nvfuser aot_cudagraphs ofi fx2trt onnxrt ipex"),
    ((0, 24), "eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt ipex tvm"),
    # `torhchxla` is how the package spells it.
    (
        (0, 32),
        "eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt "
        "aot_torchxla_trace_once torhchxla_trace_once ipex tvm",
    ),
    (
        (1, 13),
        "eager aot_eager inductor aot_ts_nvfuser nvprims_nvfuser cudagraphs ofi fx2trt onnxrt tensorrt "
        "aot_torchxla_trace_once torhchxla_trace_once tvm",
    ),
)


def flags(version: Version) -> list[Flag]:
    """The options that this version has."""
    return [flag for flag in FLAGS if flag.holds(version)]


def options_of(version: Version) -> list[Flag]:
    """The options of this version, the words that each takes filled in."""
    choices = dynamo_choices(version)
    return [
        msgspec.structs.replace(flag, choices=choices) if flag.choices == "dynamo backends" else flag for flag in flags(version)
    ]


def dynamo_choices(version: Version) -> tuple[str, ...]:
    """What `--dynamo_backend` takes; the YAML takes the names of `accelerate_names.dynamo_backends`."""
    words = next(words for since, words in reversed(_BACKENDS) if version >= since or since == (0, 20))
    return ("no", *words.split())


FLAGS = (
    Flag(names=("--config_file",), kind="text"),
    Flag(
        names=(
            "--quiet",
            "-q",
        ),
        kind="on",
    ),
    Flag(names=("--cpu",), kind="on"),
    Flag(names=("--multi_gpu",), kind="on"),
    Flag(names=("--tpu",), kind="on"),
    Flag(names=("--ipex",), kind="on", until=(1, 10)),
    Flag(names=("--mixed_precision",), kind="text", choices=("no", "fp16", "bf16", "fp8")),
    Flag(names=("--num_processes",), kind="int"),
    Flag(names=("--num_machines",), kind="int"),
    Flag(names=("--num_cpu_threads_per_process",), kind="int"),
    Flag(names=("--dynamo_backend",), kind="text", choices="dynamo backends"),
    Flag(names=("--dynamo_mode",), kind="text", default="default", choices=("default", "reduce-overhead", "max-autotune")),
    Flag(names=("--dynamo_use_fullgraph",), kind="on"),
    Flag(names=("--dynamo_use_dynamic",), kind="on"),
    Flag(names=("--use_deepspeed",), kind="on"),
    Flag(names=("--use_fsdp",), kind="on"),
    Flag(names=("--use_megatron_lm",), kind="on"),
    Flag(names=("--use_xpu",), kind="on", until=(1, 6)),
    Flag(names=("--use_xpu",), kind="on", since=(1, 6), until=(1, 13)),
    Flag(names=("--gpu_ids",), kind="text"),
    Flag(names=("--same_network",), kind="on"),
    Flag(names=("--machine_rank",), kind="int"),
    Flag(names=("--main_process_ip",), kind="text"),
    Flag(names=("--main_process_port",), kind="int"),
    Flag(
        names=(
            "-t",
            "--tee",
        ),
        kind="text",
        default="0",
    ),
    Flag(names=("--role",), kind="text", default="default"),
    Flag(names=("--rdzv_backend",), kind="text", default="static"),
    Flag(names=("--rdzv_conf",), kind="text", default=""),
    Flag(names=("--max_restarts",), kind="int", default=0),
    Flag(names=("--monitor_interval",), kind="float", default=5, until=(0, 31)),
    Flag(names=("--monitor_interval",), kind="float", default=0.1, since=(0, 31)),
    Flag(
        names=(
            "-m",
            "--module",
        ),
        kind="on",
    ),
    Flag(names=("--no_python",), kind="on"),
    Flag(names=("--tpu_cluster",), kind="on", dest="tpu_use_cluster"),
    Flag(names=("--no_tpu_cluster",), kind="off", dest="tpu_use_cluster"),
    Flag(names=("--tpu_use_sudo",), kind="on"),
    Flag(names=("--vm",), kind="append"),
    Flag(names=("--env",), kind="append"),
    Flag(names=("--main_training_function",), kind="text"),
    Flag(names=("--downcast_bf16",), kind="on"),
    Flag(names=("--deepspeed_config_file",), kind="text"),
    Flag(names=("--zero_stage",), kind="int"),
    Flag(names=("--offload_optimizer_device",), kind="text"),
    Flag(names=("--offload_param_device",), kind="text"),
    Flag(names=("--offload_optimizer_nvme_path",), kind="text"),
    Flag(names=("--offload_param_nvme_path",), kind="text"),
    Flag(names=("--gradient_accumulation_steps",), kind="int"),
    Flag(names=("--gradient_clipping",), kind="float"),
    Flag(names=("--zero3_init_flag",), kind="text"),
    Flag(names=("--zero3_save_16bit_model",), kind="text"),
    Flag(names=("--deepspeed_hostfile",), kind="text"),
    Flag(names=("--deepspeed_exclusion_filter",), kind="text"),
    Flag(names=("--deepspeed_inclusion_filter",), kind="text"),
    Flag(names=("--deepspeed_multinode_launcher",), kind="text"),
    Flag(names=("--fsdp_offload_params",), kind="text", default="false"),
    Flag(names=("--fsdp_min_num_params",), kind="int", default=1e8, until=(1, 13)),
    Flag(names=("--fsdp_min_num_params",), kind="int", default=100_000_000, since=(1, 13)),
    Flag(names=("--fsdp_sharding_strategy",), kind="int", default=1, until=(0, 26)),
    Flag(names=("--fsdp_sharding_strategy",), kind="text", default="FULL_SHARD", since=(0, 26)),
    Flag(names=("--fsdp_auto_wrap_policy",), kind="text"),
    Flag(names=("--fsdp_transformer_layer_cls_to_wrap",), kind="text"),
    Flag(names=("--fsdp_backward_prefetch_policy",), kind="text", until=(1, 0)),
    Flag(names=("--fsdp_state_dict_type",), kind="text"),
    Flag(names=("--megatron_lm_tp_degree",), kind="int", default=1),
    Flag(names=("--megatron_lm_pp_degree",), kind="int", default=1),
    Flag(names=("--megatron_lm_num_micro_batches",), kind="int"),
    Flag(names=("--megatron_lm_sequence_parallelism",), kind="text"),
    Flag(names=("--megatron_lm_recompute_activations",), kind="text"),
    Flag(names=("--megatron_lm_use_distributed_optimizer",), kind="text"),
    Flag(names=("--megatron_lm_gradient_clipping",), kind="float", default=1.0),
    Flag(names=("--aws_access_key_id",), kind="text"),
    Flag(names=("--aws_secret_access_key",), kind="text"),
    Flag(names=("--debug",), kind="on"),
    Flag(names=("--fsdp_forward_prefetch",), kind="text", default="false", since=(0, 21)),
    Flag(names=("--fsdp_use_orig_params",), kind="text", default="false", since=(0, 21), until=(0, 25)),
    Flag(names=("--fsdp_use_orig_params",), kind="text", default="true", since=(0, 25)),
    Flag(names=("--fsdp_sync_module_states",), kind="text", default="false", since=(0, 21), until=(0, 22)),
    Flag(names=("--fsdp_sync_module_states",), kind="text", default="true", since=(0, 22)),
    Flag(names=("--fsdp_cpu_ram_efficient_loading",), kind="text", default="true", since=(0, 24)),
    Flag(names=("--fsdp_backward_prefetch",), kind="text", since=(0, 26)),
    Flag(names=("--mpirun_hostfile",), kind="text", since=(0, 28)),
    Flag(names=("--mpirun_ccl",), kind="int", default=1, since=(0, 28), until=(1, 13)),
    Flag(names=("--enable_cpu_affinity",), kind="on", since=(0, 29)),
    Flag(names=("--deepspeed_moe_layer_cls_names",), kind="text", since=(0, 30)),
    Flag(names=("--log_dir",), kind="text", since=(0, 31)),
    Flag(names=("--fsdp_activation_checkpointing",), kind="text", default="false", since=(0, 31)),
    Flag(names=("--fp8_backend",), kind="text", choices=("te", "msamp"), since=(0, 34), until=(1, 13)),
    Flag(names=("--fp8_backend",), kind="text", choices=("ao", "te", "msamp"), since=(1, 13)),
    Flag(names=("--fp8_use_autocast_during_eval",), kind="on", since=(0, 34)),
    Flag(names=("--fp8_margin",), kind="int", default=0, since=(0, 34)),
    Flag(names=("--fp8_interval",), kind="int", default=1, since=(0, 34)),
    Flag(names=("--fp8_format",), kind="text", default="E4M3", choices=("E4M3", "HYBRID"), since=(0, 34), until=(1, 8)),
    Flag(names=("--fp8_format",), kind="text", default="HYBRID", choices=("HYBRID", "E4M3", "E5M2"), since=(1, 8)),
    Flag(names=("--fp8_amax_history_len",), kind="int", default=1024, since=(0, 34)),
    Flag(names=("--fp8_amax_compute_algo",), kind="text", default="most_recent", choices=("max", "most_recent"), since=(0, 34)),
    Flag(names=("--fp8_override_linear_precision",), kind="truths", default=(False, False, False), since=(0, 34)),
    Flag(names=("--fp8_opt_level",), kind="text", default="O2", choices=("O1", "O2"), since=(0, 34)),
    Flag(names=("--use_tp",), kind="on", since=(1, 4), until=(1, 7)),
    Flag(names=("--tp_size",), kind="int", default=1, since=(1, 4), until=(1, 7)),
    Flag(names=("--fsdp_version",), kind="text", default="1", choices=("1", "2"), since=(1, 6)),
    Flag(names=("--fsdp_reshard_after_forward",), kind="text", default="true", since=(1, 6)),
    Flag(names=("--dynamo_use_regional_compilation",), kind="on", since=(1, 7)),
    Flag(names=("--use_parallelism_config",), kind="on", since=(1, 10)),
    Flag(names=("--parallelism_config_dp_replicate_size",), kind="int", default=1, since=(1, 10)),
    Flag(names=("--parallelism_config_dp_shard_size",), kind="int", default=1, since=(1, 10)),
    Flag(names=("--parallelism_config_tp_size",), kind="int", default=1, since=(1, 10)),
    Flag(names=("--parallelism_config_cp_size",), kind="int", default=1, since=(1, 10)),
    Flag(names=("--parallelism_config_cp_comm_strategy",), kind="text", default="allgather", since=(1, 10)),
    Flag(names=("--parallelism_config_cp_backend",), kind="text", default="torch", choices=("torch",), since=(1, 12)),
    Flag(names=("--parallelism_config_sp_size",), kind="int", default=1, since=(1, 12)),
    Flag(names=("--parallelism_config_sp_backend",), kind="text", default="deepspeed", choices=("deepspeed",), since=(1, 12)),
    Flag(names=("--parallelism_config_sp_seq_length",), kind="text", since=(1, 12)),
    Flag(names=("--parallelism_config_sp_seq_length_is_variable",), kind="bool", default=True, since=(1, 12)),
    Flag(names=("--parallelism_config_sp_attn_implementation",), kind="text", default="sdpa", since=(1, 12)),
    Flag(names=("--megatron_lm_use_custom_fsdp",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_no_load_optim",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_eod_mask_loss",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_overlap_cpu_optimizer_d2h_h2d",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_no_save_optim",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_optimizer_cpu_offload",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_use_precision_aware_optimizer",), kind="bool", default=False, since=(1, 13)),
    Flag(names=("--megatron_lm_decoder_last_pipeline_num_layers",), kind="int", since=(1, 13)),
    Flag(names=("--megatron_lm_recompute_granularity",), kind="text", since=(1, 13)),
    Flag(names=("--megatron_lm_recompute_method",), kind="text", since=(1, 13)),
    Flag(names=("--megatron_lm_recompute_num_layers",), kind="int", since=(1, 13)),
    Flag(names=("--megatron_lm_attention_backend",), kind="text", since=(1, 13)),
    Flag(names=("--megatron_lm_expert_model_parallel_size",), kind="int", since=(1, 13)),
    Flag(names=("--megatron_lm_context_parallel_size",), kind="int", since=(1, 13)),
    Flag(names=("--megatron_lm_attention_dropout",), kind="float", since=(1, 13)),
    Flag(names=("--megatron_lm_hidden_dropout",), kind="float", since=(1, 13)),
    Flag(names=("--megatron_lm_attention_softmax_in_fp32",), kind="text", since=(1, 13)),
    Flag(names=("--megatron_lm_expert_tensor_parallel_size",), kind="int", since=(1, 13)),
    Flag(names=("--megatron_lm_calculate_per_token_loss",), kind="text", since=(1, 13)),
    Flag(names=("--megatron_lm_use_rotary_position_embeddings",), kind="text", since=(1, 13)),
    Flag(names=("--fp8_enable_fsdp_float8_all_gather",), kind="truth", default="true", since=(1, 13)),
    Flag(names=("--fp8_pad_inner_dim",), kind="truth", default="true", since=(1, 13)),
    Flag(names=("--fsdp_activation_checkpointing_offload",), kind="text", default="false", since=(1, 15)),
)
