"""What a frame of a library says: the activity that allocates, the code that asked, the outer loop, the site of an exception.

Data only. Each row is held against one frame: part of its path (from `site-packages` on, beginning at a folder or file name),
its function, and a text that must stand in the source line. `|` separates alternatives, `*` stands for any characters, empty
means any. Read in torch 2.13, transformers 4.18 to 5.24 and
accelerate 1.15; the rows of Lightning, DeepSpeed, Megatron, bitsandbytes and apex follow their public sources.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A pattern for one frame, and what it means."""

    means: str
    path: str
    function: str = ""
    code: str = ""


TRANSPARENT = (
    Row(
        "",
        "torch/nn/modules/module.py|torch/utils/_contextlib.py|torch/amp/autocast_mode.py|torch/utils/_device.py|torch/_compile.py",
    ),
    Row("", "contextlib.py|functools.py|<string>|<frozen"),
    Row("", "accelerate/utils/operations.py", "forward|__call__"),
)
"""Frames that only pass a call on."""

AUTOGRAD_ENGINE = (
    Row("", "torch/autograd/__init__.py", "backward|grad"),
    Row("", "torch/autograd/graph.py", "_engine_run_backward"),
)
CHECKPOINT_RECOMPUTE = Row("", "torch/utils/checkpoint.py")
CLOSURE = Row("", "", "*closure*|training_step*|train_step")
OPTIMIZER_STEP = Row("", "torch/optim/|lightning/*|pytorch_lightning/*|accelerate/optimizer.py", "step|optimizer_step|wrapper")
FORWARD_CALL = Row("", "torch/nn/modules/module.py", "_call_impl|_wrapped_call_impl|__call__")

# Innermost frame first; within a frame the first row that matches decides.
PHASE: tuple[Row, ...] = (
    Row(
        "gather",
        "torch/nn/parallel/scatter_gather.py|torch/nn/parallel/comm.py|torch/nn/parallel/replicate.py|torch/nn/parallel/_functions.py",
    ),
    Row("gather", "accelerate/utils/operations.py", "gather|_gpu_gather|_gpu_gather_one|pad_across_processes"),
    Row("gather", "accelerate/accelerator.py", "gather|gather_for_metrics|pad_across_processes"),
    Row("gather", "transformers/trainer_pt_utils.py", "nested_gather|distributed_concat|distributed_broadcast_scalars"),
    Row("evaluation", "transformers/trainer_pt_utils.py", "nested_concat|torch_pad_and_concatenate|add"),
    Row("evaluation", "transformers/trainer.py", "evaluation_loop|prediction_loop", "nested_concat("),
    Row("evaluation", "", "compute_metrics"),
    Row("evaluation", "torchmetrics/", "update|compute|wrapped_func|_wrap_update|_wrap_compute"),
    Row("backward", "torch/distributed/fsdp/_runtime_utils.py", "_post_backward_hook|_reduce_grad*"),
    Row("backward", "_fsdp_param_group.py", "post_backward"),
    Row("backward", "_fsdp_collectives.py", "foreach_reduce*"),
    Row("checkpoint", "transformers/trainer.py", "_save_checkpoint|save_model|_save_optimizer_and_scheduler"),
    Row("checkpoint", "transformers/trainer.py", "_load_from_checkpoint|_load_optimizer_and_scheduler"),
    Row("checkpoint", "accelerate/accelerator.py", "save_state|get_state_dict|load_state"),
    Row("checkpoint", "accelerate/utils/fsdp_utils.py", "save_fsdp_*|load_fsdp_*"),
    Row("checkpoint", "torch/distributed/fsdp/_state_dict_utils.py|torch/distributed/fsdp/_unshard_param_utils.py"),
    Row("checkpoint", "torch/distributed/checkpoint/"),
    Row("checkpoint", "torch/serialization.py", "load|_load|_legacy_load|persistent_load|load_tensor"),
    Row("checkpoint", "torch/optim/optimizer.py", "load_state_dict|_process_value_according_to_param_policy"),
    Row("checkpoint", "accelerate/checkpointing.py", "load_accelerator_state|save_accelerator_state"),
    Row("checkpoint", "deepspeed/runtime/engine.py", "load_checkpoint|save_checkpoint|_load_checkpoint|_load_zero_checkpoint"),
    Row(
        "optimizer",
        "torch/optim/",
        "step|_init_group|_single_tensor_*|_multi_tensor_*|_fused_*|adam|adamw|sgd|adagrad|adadelta|rmsprop",
    ),
    Row("optimizer", "bitsandbytes/optim/|apex/optimizers/|deepspeed/ops/adam/|deepspeed/ops/lion/|deepspeed/ops/adagrad/"),
    Row(
        "optimizer",
        "deepspeed/runtime/zero/stage*.py",
        "step|initialize_optimizer_states|_optimizer_step|unscale_and_clip_grads",
    ),
    Row("optimizer", "torch/amp/grad_scaler.py|torch/cuda/amp/grad_scaler.py", "step|unscale_|_maybe_opt_step|_unscale_grads_"),
    Row("optimizer", "torch/nn/utils/clip_grad.py"),
    Row("optimizer", "accelerate/accelerator.py", "clip_grad_norm_"),
    Row("optimizer", "transformers/trainer.py", "_clip_grad_norm"),
    Row("backward", "torch/_tensor.py", "backward"),
    Row("backward", "accelerate/accelerator.py", "backward"),
    Row("backward", "deepspeed/runtime/engine.py", "backward|allreduce_gradients|_backward*"),
    Row(
        "backward",
        "deepspeed/runtime/zero/stage*.py",
        "backward|reduce_*|average_tensor|independent_gradient_partition_epilogue",
    ),
    Row("backward", "lightning/*plugins/precision/*.py", "backward"),
    Row(
        "load",
        "transformers/modeling_utils.py|transformers/core_model_loading.py",
        "from_pretrained|_load_pretrained_model|_load_*|load_*|set_param*|convert_and_load*",
    ),
    Row("load", "accelerate/big_modeling.py", "dispatch_model|load_checkpoint_and_dispatch"),
    Row("load", "accelerate/utils/modeling.py", "set_module_tensor_to_device|load_checkpoint_in_model"),
    Row("load", "accelerate/utils/fsdp_utils.py", "fsdp2_load_full_state_dict|fsdp2_prepare_*"),
    Row("load", "transformers/trainer.py", "_move_model_to_device"),
    Row("load", "accelerate/accelerator.py", "prepare_model"),
    Row("load", "torch/nn/parallel/distributed.py", "__init__|_ddp_init_helper"),
    Row("load", "torch/distributed/fsdp/fully_sharded_data_parallel.py", "__init__"),
    Row("load", "torch/distributed/fsdp/_init_utils.py|torch/distributed/fsdp/_wrap_utils.py|_fully_shard/_fsdp_init.py"),
    Row("load", "deepspeed/__init__.py", "initialize"),
    Row(
        "load",
        "deepspeed/runtime/engine.py",
        "__init__|_configure_distributed_model|_configure_zero_optimizer|_configure_optimizer",
    ),
    Row("load", "deepspeed/runtime/zero/partition_parameters.py", "__init__|_post_init_method|_convert_to_zero_parameters"),
    Row("load", "lightning/*strategies/*.py", "model_to_device|setup"),
    Row("loss", "torch/nn/functional.py", "cross_entropy|nll_loss|*_loss|log_softmax"),
    Row("loss", "torch/nn/modules/loss.py", "forward"),
    Row("loss", "transformers/loss/"),
    Row("loss", "", "", "logits.float()"),
    Row("loss", "", "", "log_softmax(logits"),
    Row("loss", "trl/", "selective_log_softmax|get_batch_logps|logprobs_from_logits|compute_logps"),
    Row("forward", "torch/nn/functional.py|flash_attn/|xformers/|transformers/integrations/*attention*.py"),
    Row("forward", "torch/_dynamo/eval_frame.py|torch/_inductor/|torchinductor_"),
)
MOVE = Row("load", "torch/nn/modules/module.py", "to|cuda|_apply|to_empty|convert|<lambda>")
"""Module.to and the like: loading, unless a forward frame stands above."""

CONSUMER: tuple[Row, ...] = (
    Row("cudagraph", "torch/_inductor/cudagraph_trees.py|torch/cuda/graphs.py"),
    Row("compile_autotune", "torch/_inductor/runtime/triton_heuristics.py", "bench*|autotune*"),
    Row("compile_autotune", "torch/_inductor/select_algorithm.py"),
    Row("kv_cache", "vllm/|sglang/", "*kv_cache*|*init_memory_pool*|*initialize_cache*|*_allocate_kv*"),
    Row("dp_gather", "torch/nn/parallel/scatter_gather.py", "gather|gather_map"),
    Row("dp_scatter", "torch/nn/parallel/scatter_gather.py", "scatter|scatter_map|scatter_kwargs|<genexpr>"),
    Row("dp_replicate", "torch/nn/parallel/replicate.py"),
    Row("dp_gather", "torch/nn/parallel/comm.py|torch/nn/parallel/_functions.py", "", "gather"),
    Row("dp_scatter", "torch/nn/parallel/comm.py|torch/nn/parallel/_functions.py", "", "scatter"),
    Row("dp_replicate", "torch/nn/parallel/comm.py|torch/nn/parallel/_functions.py", "", "broadcast"),
    Row("eval_concat", "transformers/trainer_pt_utils.py", "nested_concat|torch_pad_and_concatenate|add"),
    Row("eval_concat", "transformers/trainer.py", "evaluation_loop|prediction_loop", "nested_concat("),
    Row("gather", "accelerate/utils/operations.py", "gather|_gpu_gather|_gpu_gather_one|pad_across_processes"),
    Row("gather", "accelerate/accelerator.py", "gather|gather_for_metrics"),
    Row("gather", "transformers/trainer_pt_utils.py", "nested_gather|distributed_concat"),
    Row(
        "fsdp_unshard",
        "torch/distributed/fsdp/_flat_param.py",
        "unshard|_alloc_padded_unsharded_flat_param|_all_gather_flat_param|_use_unsharded_flat_param",
    ),
    Row(
        "fsdp_unshard",
        "torch/distributed/fsdp/_runtime_utils.py",
        "_unshard|_pre_forward_unshard|_pre_backward_hook|_prefetch_handle",
    ),
    Row("fsdp_unshard", "_fsdp_param_group.py", "unshard|wait_for_unshard|pre_forward|pre_backward"),
    Row("fsdp_unshard", "_fsdp_collectives.py", "foreach_all_gather*"),
    Row("fsdp_unshard", "_fsdp_param.py", "alloc_all_gather_outputs|init_all_gather_outputs|init_unsharded_param"),
    Row("fsdp_reduce", "torch/distributed/fsdp/_runtime_utils.py", "_post_backward_hook|_reduce_grad*"),
    Row("fsdp_reduce", "_fsdp_param_group.py", "post_backward"),
    Row("fsdp_reduce", "_fsdp_collectives.py", "foreach_reduce*"),
    Row("zero3_gather", "deepspeed/runtime/zero/partition_parameters.py", "all_gather*|_all_gather*|_allgather*"),
    Row("zero3_gather", "deepspeed/runtime/zero/partitioned_param_coordinator.py"),
    Row("zero_reduce", "deepspeed/runtime/zero/stage*.py", "reduce_*|average_tensor|*_reduce_*"),
    Row("zero_flatten", "deepspeed/runtime/zero/stage_1_and_2.py", "__init__|flatten*"),
    Row("state_load", "torch/serialization.py", "load|_load|_legacy_load|persistent_load|load_tensor"),
    Row("state_load", "torch/optim/optimizer.py", "load_state_dict|_process_value_according_to_param_policy"),
    Row("state_load", "accelerate/checkpointing.py", "load_accelerator_state"),
    Row("state_load", "transformers/trainer.py", "_load_from_checkpoint|_load_optimizer_and_scheduler"),
    Row("state_load", "deepspeed/runtime/engine.py", "load_checkpoint|_load_checkpoint|_load_zero_checkpoint"),
    Row("full_state_dict", "torch/distributed/fsdp/_state_dict_utils.py|torch/distributed/fsdp/_unshard_param_utils.py"),
    Row("full_state_dict", "torch/distributed/checkpoint/state_dict.py", "get_*state_dict|_get_*"),
    Row("full_state_dict", "accelerate/utils/fsdp_utils.py", "save_fsdp_*"),
    Row("full_state_dict", "accelerate/accelerator.py", "get_state_dict"),
    Row("ddp_buckets", "torch/nn/parallel/distributed.py", "__init__|_ddp_init_helper"),
    Row("ddp_buckets", "torch/nn/parallel/distributed.py", "_pre_forward|forward", "_rebuild_buckets"),
    Row("optimizer_temp", "torch/optim/", "_multi_tensor_*", "_foreach_"),
    Row("optimizer_init", "torch/optim/", "_init_group"),
    Row("optimizer_init", "torch/optim/|apex/optimizers/|bitsandbytes/optim/", "", "zeros_like"),
    Row("optimizer_init", "torch/optim/|apex/optimizers/|bitsandbytes/optim/", "", "torch.zeros"),
    Row(
        "engine_init",
        "torch/distributed/fsdp/fully_sharded_data_parallel.py|torch/distributed/fsdp/_init_utils.py|torch/distributed/fsdp/_wrap_utils.py|_fully_shard/_fsdp_init.py",
    ),
    Row("engine_init", "accelerate/utils/fsdp_utils.py", "fsdp2_load_full_state_dict|fsdp2_prepare_*"),
    Row("engine_init", "deepspeed/runtime/engine.py", "__init__|_configure_*"),
    Row(
        "from_pretrained",
        "transformers/modeling_utils.py|transformers/core_model_loading.py",
        "from_pretrained|_load_*|load_*|set_param*|convert_and_load*",
    ),
    Row("from_pretrained", "accelerate/big_modeling.py|accelerate/utils/modeling.py"),
    Row("lm_head_or_loss", "torch/nn/functional.py", "cross_entropy|nll_loss|log_softmax"),
    Row("lm_head_or_loss", "torch/nn/modules/loss.py|transformers/loss/"),
    Row("lm_head_or_loss", "", "", "lm_head("),
    Row("lm_head_or_loss", "", "", "logits.float()"),
    Row("lm_head_or_loss", "", "", "log_softmax(logits"),
    Row("attention", "torch/nn/functional.py", "scaled_dot_product_attention|multi_head_attention_forward"),
    Row("attention", "", "eager_attention_forward|sdpa_attention_forward|flash_attention_forward"),
    Row("attention", "", "", "softmax(attn_weights"),
    Row("attention", "", "", "scaled_dot_product_attention("),
)
MOVE_CONSUMER = "model_move"

# Outermost frame first.
STAGE: tuple[Row, ...] = (
    Row(
        "evaluation",
        "",
        "evaluate|evaluation_loop|predict|prediction_step|prediction_loop|validate|validation_step|_run_validation|run_eval*|eval_epoch_loop"
        "|validation|validation_epoch*|validate_*|evaluate_*|val|val_*|*_val_epoch|eval_epoch|eval_one_epoch|eval_step|eval_loop|eval_model",
    ),
    Row("generate", "", "generate|_sample|_beam_search"),
    Row("save", "", "_save_checkpoint|save_model|save_state|save_checkpoint|save_pretrained"),
    Row("save", "torch/distributed/checkpoint/state_dict_saver.py"),
    Row("resume", "", "_load_from_checkpoint|load_state|_load_optimizer_and_scheduler|load_checkpoint|resume*"),
    Row(
        "load",
        "transformers/modeling_utils.py|transformers/core_model_loading.py|transformers/models/auto/*.py",
        "from_pretrained|_load_pretrained_model",
    ),
    Row("load", "torch/nn/modules/module.py", "to|cuda"),
    Row("wrap", "accelerate/accelerator.py", "prepare*"),
    Row("wrap", "transformers/trainer.py", "_wrap_model"),
    Row("wrap", "torch/nn/parallel/distributed.py|torch/distributed/fsdp/fully_sharded_data_parallel.py", "__init__"),
    Row("wrap", "deepspeed/__init__.py", "initialize"),
    Row("train", "", "training_step|train_batch|train_step|train_one_epoch"),
    Row("train", "torch/_tensor.py|accelerate/accelerator.py|deepspeed/runtime/engine.py", "backward"),
    Row("train", "torch/optim/*|accelerate/optimizer.py", "step|wrapper"),
    Row("teardown", "", "destroy_process_group|_exit_function"),
)

# Innermost frame first; a frame of the script itself matches none of them.
SITE: tuple[Row, ...] = (
    Row("launcher_config", "accelerate/commands/|torch/distributed/launcher/"),
    Row("launcher_config", "torch/distributed/run.py", "parse*|config_from_args|determine_local_world_size"),
    Row("argparse", "argparse.py", "parse_args|parse_known_args|error"),
    Row("argparse", "transformers/hf_argparser.py"),
    Row(
        "deepspeed_config",
        "deepspeed/runtime/config*.py|transformers/integrations/deepspeed.py|transformers/deepspeed.py|accelerate/utils/deepspeed.py",
    ),
    Row(
        "fsdp_wrap",
        "torch/distributed/fsdp/_init_utils.py|torch/distributed/fsdp/_wrap_utils.py|torch/distributed/fsdp/wrap.py",
    ),
    Row("fsdp_wrap", "torch/distributed/fsdp/_flat_param.py", "__init__|_init_flat_param*|_validate*"),
    Row("fsdp_wrap", "accelerate/", "fsdp2_prepare_*|set_auto_wrap_policy"),
    Row("rendezvous", "torch/distributed/elastic/rendezvous/|torch/distributed/rendezvous.py"),
    Row(
        "rendezvous",
        "torch/distributed/distributed_c10d.py",
        "init_process_group|_new_process_group_helper|_store_based_barrier",
    ),
    Row("hub", "huggingface_hub/|datasets/utils/file_utils.py|transformers/utils/hub.py"),
    Row("tracker", "wandb/|mlflow/|comet_ml/|neptune/|clearml/|swanlab/|trackio/"),
    Row("compile", "torch/_dynamo/|torch/_inductor/|triton/"),
    Row("ckpt_load", "torch/serialization.py", "load|_load|_legacy_load|__init__|persistent_load|load_tensor"),
    Row("ckpt_load", "safetensors/", "load*|safe_open*|__enter__|__init__"),
    Row("ckpt_load", "", "load_state_dict"),
    Row("ckpt_load", "accelerate/checkpointing.py", "load_*"),
    Row(
        "ckpt_load",
        "torch/distributed/checkpoint/state_dict_loader.py|torch/distributed/checkpoint/default_planner.py|torch/distributed/checkpoint/filesystem.py",
        "load*|read*|create_*load_plan",
    ),
    Row("ckpt_save", "torch/serialization.py", "save|_save|__exit__|_legacy_save"),
    Row("ckpt_save", "safetensors/", "save*|serialize*|_flatten*"),
    Row("ckpt_save", "", "save_pretrained"),
    Row(
        "ckpt_save",
        "torch/distributed/checkpoint/state_dict_saver.py|torch/distributed/checkpoint/filesystem.py",
        "save*|write*|_write*",
    ),
    Row(
        "collate",
        "torch/utils/data/_utils/collate.py|transformers/data/data_collator.py|transformers/tokenization_utils_base.py",
    ),
    Row("collate", "", "collate_fn|default_collate|collate|*_collate|collator"),
    Row("dataset", "", "__getitem__|__getitems__"),
    Row("dataset", "datasets/arrow_dataset.py|datasets/formatting/*.py|datasets/iterable_dataset.py"),
    Row("dataset", "torch/utils/data/_utils/fetch.py"),
    Row(
        "dataloader",
        "torch/utils/data/dataloader.py|torch/utils/data/_utils/worker.py|torch/utils/data/_utils/signal_handling.py|torch/utils/data/_utils/pin_memory.py",
    ),
    Row("batch_prepare", "", "_prepare_inputs|send_to_device|get_batch_samples|_get_num_items_in_batch"),
    Row("reducer", "torch/nn/parallel/distributed.py", "", "self.reducer."),
    Row("optimizer", "torch/optim/|torch/nn/utils/clip_grad.py"),
    Row("optimizer", "grad_scaler.py", "step|unscale_"),
    Row("backward", "torch/autograd/__init__.py|torch/autograd/graph.py", "backward|grad|_engine_run_backward"),
    Row("loss", "torch/nn/modules/loss.py|transformers/loss/"),
    Row("loss", "torch/nn/functional.py", "cross_entropy|nll_loss|*_loss"),
    Row("collective", "torch/distributed/distributed_c10d.py|torch/distributed/c10d_logger.py"),
    Row("forward", "torch/nn/modules/module.py", "_call_impl|_wrapped_call_impl|__call__"),
)
