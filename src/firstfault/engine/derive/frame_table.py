"""What a frame of a library says: the activity that allocates, the code that asked, the outer loop, the site of an exception.

Data only. Each row is held against one frame: a regular expression for the path (searched from `site-packages` on), one for the
whole function name, a text that must stand in the source line (empty: any). Read in torch 2.13, transformers 4.18 to 5.24 and
accelerate 1.15; the rows of Lightning, DeepSpeed, Megatron, bitsandbytes and apex follow their public sources.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A pattern for one frame, and what it means."""

    means: str
    path: str
    function: str = ".*"
    code: str = ""


TRANSPARENT = (
    r"torch/nn/modules/module\.py|torch/utils/_contextlib\.py|torch/amp/autocast_mode\.py|torch/utils/_device\.py|contextlib\.py"
    r"|functools\.py|accelerate/utils/operations\.py:(forward|__call__)|torch/_compile\.py|<string>|<frozen"
)
"""Frames that only pass a call on (`path` or `path:function`)."""

AUTOGRAD_ENGINE = (
    Row("", r"torch/autograd/__init__\.py", r"backward|grad"),
    Row("", r"torch/autograd/graph\.py", "_engine_run_backward"),
)
CHECKPOINT_RECOMPUTE = Row("", r"torch/utils/checkpoint\.py")
CLOSURE = Row("", ".*", r".*closure.*|training_step.*|train_step")
OPTIMIZER_STEP = Row(
    "", r"torch/optim/|lightning/.*|pytorch_lightning/.*|accelerate/optimizer\.py", r"step|optimizer_step|wrapper"
)
FORWARD_CALL = Row("", r"torch/nn/modules/module\.py", r"_call_impl|_wrapped_call_impl|__call__")

# Innermost frame first; within a frame the first row that matches decides.
PHASE: tuple[Row, ...] = (
    Row("gather", r"torch/nn/parallel/(scatter_gather|comm|replicate|_functions)\.py"),
    Row("gather", r"accelerate/utils/operations\.py", r"gather|_gpu_gather|_gpu_gather_one|pad_across_processes"),
    Row("gather", r"accelerate/accelerator\.py", r"gather|gather_for_metrics|pad_across_processes"),
    Row("gather", r"transformers/trainer_pt_utils\.py", r"nested_gather|distributed_concat|distributed_broadcast_scalars"),
    Row("evaluation", r"transformers/trainer_pt_utils\.py", r"nested_concat|torch_pad_and_concatenate|add"),
    Row("evaluation", r"transformers/trainer\.py", r"evaluation_loop|prediction_loop", "nested_concat("),
    Row("evaluation", r".*", r"compute_metrics"),
    Row("evaluation", r"torchmetrics/", r"update|compute|wrapped_func|_wrap_update|_wrap_compute"),
    Row("backward", r"torch/distributed/fsdp/_runtime_utils\.py", r"_post_backward_hook|_reduce_grad.*"),
    Row("backward", r"_fsdp_param_group\.py", r"post_backward"),
    Row("backward", r"_fsdp_collectives\.py", r"foreach_reduce.*"),
    Row("checkpoint", r"transformers/trainer\.py", r"_save_checkpoint|save_model|_save_optimizer_and_scheduler"),
    Row("checkpoint", r"transformers/trainer\.py", r"_load_from_checkpoint|_load_optimizer_and_scheduler"),
    Row("checkpoint", r"accelerate/accelerator\.py", r"save_state|get_state_dict|load_state"),
    Row("checkpoint", r"accelerate/utils/fsdp_utils\.py", r"save_fsdp_.*|load_fsdp_.*"),
    Row("checkpoint", r"torch/distributed/fsdp/(_state_dict_utils|_unshard_param_utils)\.py"),
    Row("checkpoint", r"torch/distributed/checkpoint/"),
    Row("checkpoint", r"torch/serialization\.py", r"load|_load|_legacy_load|persistent_load|load_tensor"),
    Row("checkpoint", r"torch/optim/optimizer\.py", r"load_state_dict|_process_value_according_to_param_policy"),
    Row("checkpoint", r"accelerate/checkpointing\.py", r"load_accelerator_state|save_accelerator_state"),
    Row(
        "checkpoint", r"deepspeed/runtime/engine\.py", r"load_checkpoint|save_checkpoint|_load_checkpoint|_load_zero_checkpoint"
    ),
    Row(
        "optimizer",
        r"torch/optim/",
        r"step|_init_group|_single_tensor_.*|_multi_tensor_.*|_fused_.*|(adam|adamw|sgd|adagrad|adadelta|rmsprop)",
    ),
    Row("optimizer", r"bitsandbytes/optim/|apex/optimizers/|deepspeed/ops/(adam|lion|adagrad)/"),
    Row(
        "optimizer",
        r"deepspeed/runtime/zero/stage.*\.py",
        r"step|initialize_optimizer_states|_optimizer_step|unscale_and_clip_grads",
    ),
    Row(
        "optimizer",
        r"torch/amp/grad_scaler\.py|torch/cuda/amp/grad_scaler\.py",
        r"step|unscale_|_maybe_opt_step|_unscale_grads_",
    ),
    Row("optimizer", r"torch/nn/utils/clip_grad\.py"),
    Row("optimizer", r"accelerate/accelerator\.py", r"clip_grad_norm_"),
    Row("optimizer", r"transformers/trainer\.py", r"_clip_grad_norm"),
    Row("backward", r"torch/_tensor\.py", r"backward"),
    Row("backward", r"accelerate/accelerator\.py", r"backward"),
    Row("backward", r"deepspeed/runtime/engine\.py", r"backward|allreduce_gradients|_backward.*"),
    Row(
        "backward",
        r"deepspeed/runtime/zero/stage.*\.py",
        r"backward|reduce_.*|average_tensor|independent_gradient_partition_epilogue",
    ),
    Row("backward", r"lightning/.*plugins/precision/.*\.py", r"backward"),
    Row(
        "load",
        r"transformers/(modeling_utils|core_model_loading)\.py",
        r"from_pretrained|_load_pretrained_model|_load_.*|load_.*|set_param.*|convert_and_load.*",
    ),
    Row("load", r"accelerate/big_modeling\.py", r"dispatch_model|load_checkpoint_and_dispatch"),
    Row("load", r"accelerate/utils/modeling\.py", r"set_module_tensor_to_device|load_checkpoint_in_model"),
    Row("load", r"accelerate/utils/fsdp_utils\.py", r"fsdp2_load_full_state_dict|fsdp2_prepare_.*"),
    Row("load", r"transformers/trainer\.py", r"_move_model_to_device"),
    Row("load", r"accelerate/accelerator\.py", r"prepare_model"),
    Row("load", r"torch/nn/parallel/distributed\.py", r"__init__|_ddp_init_helper"),
    Row("load", r"torch/distributed/fsdp/fully_sharded_data_parallel\.py", r"__init__"),
    Row("load", r"torch/distributed/fsdp/(_init_utils|_wrap_utils)\.py|_fully_shard/_fsdp_init\.py"),
    Row("load", r"deepspeed/__init__\.py", r"initialize"),
    Row(
        "load",
        r"deepspeed/runtime/engine\.py",
        r"__init__|_configure_distributed_model|_configure_zero_optimizer|_configure_optimizer",
    ),
    Row("load", r"deepspeed/runtime/zero/partition_parameters\.py", r"__init__|_post_init_method|_convert_to_zero_parameters"),
    Row("load", r"lightning/.*strategies/.*\.py", r"model_to_device|setup"),
    Row("loss", r"torch/nn/functional\.py", r"cross_entropy|nll_loss|.*_loss|log_softmax"),
    Row("loss", r"torch/nn/modules/loss\.py", r"forward"),
    Row("loss", r"transformers/loss/"),
    Row("loss", r".*", r".*", "logits.float()"),
    Row("loss", r".*", r".*", "log_softmax(logits"),
    Row("loss", r"trl/", r"selective_log_softmax|get_batch_logps|logprobs_from_logits|compute_logps"),
    Row("forward", r"torch/nn/functional\.py|flash_attn/|xformers/|transformers/integrations/.*attention.*\.py"),
    Row("forward", r"torch/_dynamo/eval_frame\.py|torch/_inductor/|torchinductor_"),
)
MOVE = Row("load", r"torch/nn/modules/module\.py", r"to|cuda|_apply|to_empty|convert|<lambda>")
"""Module.to and the like: loading, unless a forward frame stands above."""

CONSUMER: tuple[Row, ...] = (
    Row("cudagraph", r"torch/_inductor/cudagraph_trees\.py|torch/cuda/graphs\.py"),
    Row("compile_autotune", r"torch/_inductor/runtime/triton_heuristics\.py", r"bench.*|autotune.*"),
    Row("compile_autotune", r"torch/_inductor/select_algorithm\.py"),
    Row("kv_cache", r"(vllm|sglang)/", r".*(kv_cache|init_memory_pool|initialize_cache|_allocate_kv).*"),
    Row("dp_gather", r"torch/nn/parallel/scatter_gather\.py", r"gather|gather_map"),
    Row("dp_scatter", r"torch/nn/parallel/scatter_gather\.py", r"scatter|scatter_map|scatter_kwargs|<genexpr>"),
    Row("dp_replicate", r"torch/nn/parallel/replicate\.py"),
    Row("dp_gather", r"torch/nn/parallel/(comm|_functions)\.py", r".*", "gather"),
    Row("dp_scatter", r"torch/nn/parallel/(comm|_functions)\.py", r".*", "scatter"),
    Row("dp_replicate", r"torch/nn/parallel/(comm|_functions)\.py", r".*", "broadcast"),
    Row("eval_concat", r"transformers/trainer_pt_utils\.py", r"nested_concat|torch_pad_and_concatenate|add"),
    Row("eval_concat", r"transformers/trainer\.py", r"evaluation_loop|prediction_loop", "nested_concat("),
    Row("gather", r"accelerate/utils/operations\.py", r"gather|_gpu_gather|_gpu_gather_one|pad_across_processes"),
    Row("gather", r"accelerate/accelerator\.py", r"gather|gather_for_metrics"),
    Row("gather", r"transformers/trainer_pt_utils\.py", r"nested_gather|distributed_concat"),
    Row(
        "fsdp_unshard",
        r"torch/distributed/fsdp/_flat_param\.py",
        r"unshard|_alloc_padded_unsharded_flat_param|_all_gather_flat_param|_use_unsharded_flat_param",
    ),
    Row(
        "fsdp_unshard",
        r"torch/distributed/fsdp/_runtime_utils\.py",
        r"_unshard|_pre_forward_unshard|_pre_backward_hook|_prefetch_handle",
    ),
    Row("fsdp_unshard", r"_fsdp_param_group\.py", r"unshard|wait_for_unshard|pre_forward|pre_backward"),
    Row("fsdp_unshard", r"_fsdp_collectives\.py", r"foreach_all_gather.*"),
    Row("fsdp_unshard", r"_fsdp_param\.py", r"alloc_all_gather_outputs|init_all_gather_outputs|init_unsharded_param"),
    Row("fsdp_reduce", r"torch/distributed/fsdp/_runtime_utils\.py", r"_post_backward_hook|_reduce_grad.*"),
    Row("fsdp_reduce", r"_fsdp_param_group\.py", r"post_backward"),
    Row("fsdp_reduce", r"_fsdp_collectives\.py", r"foreach_reduce.*"),
    Row("zero3_gather", r"deepspeed/runtime/zero/partition_parameters\.py", r"all_gather.*|_all_gather.*|_allgather.*"),
    Row("zero3_gather", r"deepspeed/runtime/zero/partitioned_param_coordinator\.py"),
    Row("zero_reduce", r"deepspeed/runtime/zero/stage.*\.py", r"reduce_.*|average_tensor|.*_reduce_.*"),
    Row("zero_flatten", r"deepspeed/runtime/zero/stage_1_and_2\.py", r"__init__|flatten.*"),
    Row("state_load", r"torch/serialization\.py", r"load|_load|_legacy_load|persistent_load|load_tensor"),
    Row("state_load", r"torch/optim/optimizer\.py", r"load_state_dict|_process_value_according_to_param_policy"),
    Row("state_load", r"accelerate/checkpointing\.py", r"load_accelerator_state"),
    Row("state_load", r"transformers/trainer\.py", r"_load_from_checkpoint|_load_optimizer_and_scheduler"),
    Row("state_load", r"deepspeed/runtime/engine\.py", r"load_checkpoint|_load_checkpoint|_load_zero_checkpoint"),
    Row("full_state_dict", r"torch/distributed/fsdp/(_state_dict_utils|_unshard_param_utils)\.py"),
    Row("full_state_dict", r"torch/distributed/checkpoint/state_dict\.py", r"get_.*state_dict|_get_.*"),
    Row("full_state_dict", r"accelerate/utils/fsdp_utils\.py", r"save_fsdp_.*"),
    Row("full_state_dict", r"accelerate/accelerator\.py", r"get_state_dict"),
    Row("ddp_buckets", r"torch/nn/parallel/distributed\.py", r"__init__|_ddp_init_helper"),
    Row("ddp_buckets", r"torch/nn/parallel/distributed\.py", r"_pre_forward|forward", "_rebuild_buckets"),
    Row("optimizer_temp", r"torch/optim/", r"_multi_tensor_.*", "_foreach_"),
    Row("optimizer_init", r"torch/optim/", r"_init_group"),
    Row("optimizer_init", r"torch/optim/|apex/optimizers/|bitsandbytes/optim/", r".*", "zeros_like"),
    Row("optimizer_init", r"torch/optim/|apex/optimizers/|bitsandbytes/optim/", r".*", "torch.zeros"),
    Row(
        "engine_init",
        r"torch/distributed/fsdp/(fully_sharded_data_parallel|_init_utils|_wrap_utils)\.py|_fully_shard/_fsdp_init\.py",
    ),
    Row("engine_init", r"accelerate/utils/fsdp_utils\.py", r"fsdp2_load_full_state_dict|fsdp2_prepare_.*"),
    Row("engine_init", r"deepspeed/runtime/engine\.py", r"__init__|_configure_.*"),
    Row(
        "from_pretrained",
        r"transformers/(modeling_utils|core_model_loading)\.py",
        r"from_pretrained|_load_.*|load_.*|set_param.*|convert_and_load.*",
    ),
    Row("from_pretrained", r"accelerate/(big_modeling|utils/modeling)\.py"),
    Row("lm_head_or_loss", r"torch/nn/functional\.py", r"cross_entropy|nll_loss|log_softmax"),
    Row("lm_head_or_loss", r"torch/nn/modules/loss\.py|transformers/loss/"),
    Row("lm_head_or_loss", r".*", r".*", "lm_head("),
    Row("lm_head_or_loss", r".*", r".*", "logits.float()"),
    Row("lm_head_or_loss", r".*", r".*", "log_softmax(logits"),
    Row("attention", r"torch/nn/functional\.py", r"scaled_dot_product_attention|multi_head_attention_forward"),
    Row("attention", r".*", r"eager_attention_forward|sdpa_attention_forward|flash_attention_forward"),
    Row("attention", r".*", r".*", "softmax(attn_weights"),
    Row("attention", r".*", r".*", "scaled_dot_product_attention("),
)
MOVE_CONSUMER = "model_move"

# Outermost frame first.
STAGE: tuple[Row, ...] = (
    Row(
        "evaluation",
        r".*",
        r"evaluate|evaluation_loop|predict|prediction_step|prediction_loop|validate|validation_step|_run_validation|run_eval.*|eval_epoch_loop",
    ),
    Row("generate", r".*", r"generate|_sample|_beam_search"),
    Row("save", r".*", r"_save_checkpoint|save_model|save_state|save_checkpoint|save_pretrained"),
    Row("save", r"torch/distributed/checkpoint/state_dict_saver\.py"),
    Row("resume", r".*", r"_load_from_checkpoint|load_state|_load_optimizer_and_scheduler|load_checkpoint|resume.*"),
    Row(
        "load",
        r"transformers/(modeling_utils|core_model_loading|models/auto/.*)\.py",
        r"from_pretrained|_load_pretrained_model",
    ),
    Row("load", r"torch/nn/modules/module\.py", r"to|cuda"),
    Row("wrap", r"accelerate/accelerator\.py", r"prepare.*"),
    Row("wrap", r"transformers/trainer\.py", r"_wrap_model"),
    Row("wrap", r"torch/nn/parallel/distributed\.py|torch/distributed/fsdp/fully_sharded_data_parallel\.py", r"__init__"),
    Row("wrap", r"deepspeed/__init__\.py", r"initialize"),
    Row("train", r".*", r"training_step|train_batch|train_step|train_one_epoch"),
    Row("train", r"torch/_tensor\.py|accelerate/accelerator\.py|deepspeed/runtime/engine\.py", r"backward"),
    Row("train", r"torch/optim/.*|accelerate/optimizer\.py", r"step|wrapper"),
    Row("teardown", r".*", r"destroy_process_group|_exit_function"),
)

# Innermost frame first; a frame of the script itself matches none of them.
SITE: tuple[Row, ...] = (
    Row("launcher_config", r"accelerate/commands/|torch/distributed/launcher/"),
    Row("launcher_config", r"torch/distributed/run\.py", r"parse.*|config_from_args|determine_local_world_size"),
    Row("argparse", r"argparse\.py", r"parse_args|parse_known_args|error"),
    Row("argparse", r"transformers/hf_argparser\.py"),
    Row(
        "deepspeed_config",
        r"deepspeed/runtime/config.*\.py|transformers/(integrations/)?deepspeed\.py|accelerate/utils/deepspeed\.py",
    ),
    Row("fsdp_wrap", r"torch/distributed/fsdp/(_init_utils|_wrap_utils|wrap)\.py"),
    Row("fsdp_wrap", r"torch/distributed/fsdp/_flat_param\.py", r"__init__|_init_flat_param.*|_validate.*"),
    Row("fsdp_wrap", r"accelerate/", r"fsdp2_prepare_.*|set_auto_wrap_policy"),
    Row("rendezvous", r"torch/distributed/elastic/rendezvous/|torch/distributed/rendezvous\.py"),
    Row(
        "rendezvous",
        r"torch/distributed/distributed_c10d\.py",
        r"init_process_group|_new_process_group_helper|_store_based_barrier",
    ),
    Row("hub", r"huggingface_hub/|datasets/utils/file_utils\.py|transformers/utils/hub\.py"),
    Row("tracker", r"(wandb|mlflow|comet_ml|neptune|clearml|swanlab|trackio)/"),
    Row("compile", r"torch/_dynamo/|torch/_inductor/|triton/"),
    Row("ckpt_load", r"torch/serialization\.py", r"load|_load|_legacy_load|__init__|persistent_load|load_tensor"),
    Row("ckpt_load", r"safetensors/", r"load.*|safe_open.*|__enter__|__init__"),
    Row("ckpt_load", r".*", r"load_state_dict"),
    Row("ckpt_load", r"accelerate/checkpointing\.py", r"load_.*"),
    Row(
        "ckpt_load",
        r"torch/distributed/checkpoint/(state_dict_loader|default_planner|filesystem)\.py",
        r"load.*|read.*|create_.*load_plan",
    ),
    Row("ckpt_save", r"torch/serialization\.py", r"save|_save|__exit__|_legacy_save"),
    Row("ckpt_save", r"safetensors/", r"save.*|serialize.*|_flatten.*"),
    Row("ckpt_save", r".*", r"save_pretrained"),
    Row("ckpt_save", r"torch/distributed/checkpoint/(state_dict_saver|filesystem)\.py", r"save.*|write.*|_write.*"),
    Row(
        "collate",
        r"torch/utils/data/_utils/collate\.py|transformers/data/data_collator\.py|transformers/tokenization_utils_base\.py",
    ),
    Row("collate", r".*", r"collate_fn|default_collate|collate|.*_collate|collator"),
    Row("dataset", r".*", r"__getitem__|__getitems__"),
    Row("dataset", r"datasets/(arrow_dataset|formatting/.*|iterable_dataset)\.py"),
    Row("dataset", r"torch/utils/data/_utils/fetch\.py"),
    Row("dataloader", r"torch/utils/data/(dataloader|_utils/worker|_utils/signal_handling|_utils/pin_memory)\.py"),
    Row("batch_prepare", r".*", r"_prepare_inputs?|send_to_device|get_batch_samples|_get_num_items_in_batch"),
    Row("optimizer", r"torch/optim/|torch/nn/utils/clip_grad\.py"),
    Row("optimizer", r"grad_scaler\.py", r"step|unscale_"),
    Row("backward", r"torch/autograd/(__init__|graph)\.py", r"backward|grad|_engine_run_backward"),
    Row("loss", r"torch/nn/modules/loss\.py|transformers/loss/"),
    Row("loss", r"torch/nn/functional\.py", r"cross_entropy|nll_loss|.*_loss"),
    Row("collective", r"torch/distributed/(distributed_c10d|c10d_logger)\.py"),
    Row("forward", r"torch/nn/modules/module\.py", r"_call_impl|_wrapped_call_impl|__call__"),
)
