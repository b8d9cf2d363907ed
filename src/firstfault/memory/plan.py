"""What is trained and how, as far as it decides the memory: the input of every tier of the forecast."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

DType = Literal["float32", "bfloat16", "float16"]
OptimizerName = Literal["adamw", "adamw_8bit", "adafactor", "sgd", "sgd_momentum", "none"]
OptimizerImplementation = Literal["loop", "foreach", "fused"]
Attention = Literal["eager", "sdpa", "flash_attention_2"]
Loss = Literal["upcast", "plain", "chunked", "fused"]
Strategy = Literal["single", "dp", "ddp", "fsdp1", "fsdp2", "zero0", "zero1", "zero2", "zero3"]
Quantization = Literal["none", "int8", "nf4", "nf4-double"]

DTYPE_BYTES: dict[str, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


class Lora(msgspec.Struct, frozen=True, kw_only=True):
    """Low-rank adapters; `targets` are ends of module names, or `all-linear`. `dtype` None is that of the base weights."""

    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    dropout: float = 0.0
    dtype: DType | None = None
    train_embeddings: bool = False


class Optimizer(msgspec.Struct, frozen=True, kw_only=True):
    """The optimizer, how torch runs it, and whether its state lies in host memory (`paged`: may move there)."""

    name: OptimizerName = "adamw"
    implementation: OptimizerImplementation = "foreach"
    state_dtype: DType | None = None
    paged: bool = False


class Parallel(msgspec.Struct, frozen=True, kw_only=True):
    """How the step is spread over `world` devices.

    `bucket_view` is DDP's gradient_as_bucket_view; `reshard` frees gathered weights after forward (FULL_SHARD, ZeRO-3);
    `shard_dtype` is the type of the shards where it differs from the type of computation; sizes of buckets are bytes.
    """

    strategy: Strategy = "single"
    world: int = 1
    bucket_view: bool = False
    reshard: bool = True
    shard_dtype: DType | None = None
    reduce_dtype: DType | None = None
    offload_optimizer: bool = False
    offload_weights: bool = False
    prefetch_layers: int = 1
    wraps_layers: bool = True
    reduce_bucket: int = 500_000_000
    ignores_trainable: bool = False


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluation in the Trainer: predictions are kept (and gathered) only with `metrics`."""

    micro_batch: int = 8
    seq_len: int | None = None
    metrics: bool = False
    accumulation_steps: int | None = None
    batches: int = 2
    preprocesses_logits: bool = False


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """One device: its memory in bytes, its compute capability as `8.0`.

    `context_bytes` is all that the process holds there besides torch's own memory (CUDA context, NCCL), where it is known.
    """

    name: str = ""
    memory_bytes: int | None = None
    context_bytes: int | None = None
    capability: str | None = None


class Allocator(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the caching allocator (PYTORCH_CUDA_ALLOC_CONF); 0 switches one off."""

    expandable_segments: bool = False
    max_split_bytes: int | None = None
    garbage_collection_threshold: float = 0.0
    power_of_two_divisions: int = 0


class MemoryPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One training step.

    `config` is the model's `config.json` as it stands; `head` what is trained on top of it (`masked-lm`, `classification`;
    None: what `architectures` says). `micro_batch` and `seq_len` are of one device. `weights` is the type of the parameters,
    `autocast` the type of computation where it differs. `padded`: batches hold padding, so that an attention mask reaches the
    kernel. `prepares_kbit`: all that is not quantized is cast to fp32 (PEFT's prepare_model_for_kbit_training).
    `keeps_graphs`: the loss of every micro-batch of an accumulation is kept with its graph. `difference_bytes` is what a
    measurement of this run shows beyond the forecast. `origins` tells by fact (as the assumptions name it) where a value
    came from.
    """

    model: str = ""
    config: dict[str, Any]
    head: str | None = None
    weights: DType = "float32"
    autocast: DType | None = None
    quantization: Quantization = "none"
    prepares_kbit: bool = False
    lora: Lora | None = None
    optimizer: Optimizer = Optimizer()
    micro_batch: int = 1
    seq_len: int = 512
    padded: bool = False
    accumulate: int = 1
    keeps_graphs: bool = False
    checkpointing: bool = False
    attention: Attention = "sdpa"
    loss: Loss = "upcast"
    clips_gradients: bool = True
    parallel: Parallel = Parallel()
    evaluation: Evaluation | None = None
    saves_checkpoint: bool = True
    device: Device = Device()
    allocator: Allocator = Allocator()
    difference_bytes: int = 0
    versions: dict[str, str] = {}
    origins: dict[str, str] = {}
