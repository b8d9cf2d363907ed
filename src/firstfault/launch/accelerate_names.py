"""What accelerate's configuration may hold, by version: keys, and the words for types, precisions and backends.

Read from accelerate/commands/config/config_args.py and accelerate/utils/dataclasses.py of 31 releases, 0.20.3 to 1.15.0.
"""

from __future__ import annotations

from firstfault.launch.request import Version

LATEST: Version = (1, 15, 0)
"""The newest version whose rules are known; they are taken for later ones and where the version is not known."""

PRECISIONS = ("no", "fp8", "fp16", "bf16")
ENVIRONMENTS = ("LOCAL_MACHINE", "AMAZON_SAGEMAKER")
SAGEMAKER_TYPES = ("NO", "DATA_PARALLEL", "MODEL_PARALLEL")
SEVERAL_DEVICES = frozenset(
    {"MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU", "MULTI_HPU", "MULTI_NEURON"}
)

_Rows = tuple[tuple[str, Version, Version], ...]

_TYPES: _Rows = (
    ("NO", (), ()),
    ("MULTI_CPU", (), ()),
    ("MULTI_GPU", (), ()),
    ("MULTI_NPU", (0, 21), ()),
    ("MULTI_MLU", (0, 29), ()),
    ("MULTI_SDAA", (1, 5), ()),
    ("MULTI_MUSA", (0, 33), ()),
    ("MULTI_XPU", (), ()),
    ("DEEPSPEED", (), ()),
    ("FSDP", (), ()),
    ("TP", (1, 4), (1, 10)),
    ("TPU", (), (0, 28)),
    ("XLA", (0, 28), ()),
    ("MEGATRON_LM", (), ()),
    ("MULTI_HPU", (1, 5), ()),
    ("MULTI_NEURON", (1, 13), ()),
)
_BACKENDS: _Rows = (
    ("NO", (), ()),
    ("EAGER", (), ()),
    ("AOT_EAGER", (), ()),
    ("INDUCTOR", (), ()),
    ("NVFUSER", (), (0, 24)),
    ("AOT_NVFUSER", (), (0, 24)),
    ("AOT_CUDAGRAPHS", (), (0, 24)),
    ("AOT_TS_NVFUSER", (0, 24), ()),
    ("NVPRIMS_NVFUSER", (0, 24), ()),
    ("CUDAGRAPHS", (0, 24), ()),
    ("OFI", (), ()),
    ("FX2TRT", (), ()),
    ("ONNXRT", (), ()),
    ("TENSORRT", (0, 24), ()),
    ("AOT_TORCHXLA_TRACE_ONCE", (0, 32), ()),
    ("TORCHXLA_TRACE_ONCE", (0, 32), ()),
    ("IPEX", (), (1, 13)),
    ("TVM", (0, 24), ()),
    ("HPU_BACKEND", (1, 5), ()),
    ("NEURON", (1, 15), ()),
)
# In the order of the fields: an exception lists the missing ones in it, and the merge goes through them in it.
_BASE: _Rows = (
    ("compute_environment", (), ()),
    ("distributed_type", (), ()),
    ("mixed_precision", (), ()),
    ("use_cpu", (), ()),
    ("debug", (0, 22), ()),
)
_CLUSTER: _Rows = (
    ("num_processes", (), ()),
    ("machine_rank", (), ()),
    ("num_machines", (), ()),
    ("gpu_ids", (), ()),
    ("main_process_ip", (), ()),
    ("main_process_port", (), ()),
    ("rdzv_backend", (), ()),
    ("same_network", (), ()),
    ("main_training_function", (), ()),
    ("enable_cpu_affinity", (0, 29), ()),
    ("fp8_config", (0, 34), ()),
    ("deepspeed_config", (), ()),
    ("fsdp_config", (), ()),
    ("tp_config", (1, 4), (1, 7)),
    ("parallelism_config", (1, 10), ()),
    ("megatron_lm_config", (), ()),
    ("ipex_config", (), (1, 13)),
    ("mpirun_config", (0, 28), ()),
    ("downcast_bf16", (), ()),
    ("tpu_name", (), ()),
    ("tpu_zone", (), ()),
    ("tpu_use_cluster", (), ()),
    ("tpu_use_sudo", (), ()),
    ("command_file", (), ()),
    ("commands", (), ()),
    ("tpu_vm", (), ()),
    ("tpu_env", (), ()),
    ("dynamo_config", (), ()),
)
_SAGEMAKER: _Rows = (
    ("ec2_instance_type", (), ()),
    ("iam_role_name", (), ()),
    ("image_uri", (), ()),
    ("profile", (), ()),
    ("region", (), ()),
    ("num_machines", (), ()),
    ("gpu_ids", (), ()),
    ("base_job_name", (), ()),
    ("pytorch_version", (), ()),
    ("transformers_version", (), ()),
    ("py_version", (), ()),
    ("sagemaker_inputs_file", (), ()),
    ("sagemaker_metrics_file", (), ()),
    ("additional_args", (), ()),
    ("dynamo_config", (), ()),
    ("enable_cpu_affinity", (0, 30), ()),
)
DEFAULTS: dict[str, object] = {
    "num_processes": -1,
    "machine_rank": 0,
    "num_machines": 1,
    "rdzv_backend": "static",
    "same_network": False,
    "main_training_function": "main",
    "enable_cpu_affinity": False,
    "downcast_bf16": False,
    "tpu_use_cluster": False,
    "tpu_use_sudo": False,
}
"""The values of keys that a file leaves out; all others are None, or empty for the nested ones."""


def distributed_types(version: Version) -> tuple[str, ...]:
    """The words that `distributed_type` takes."""
    return _of(_TYPES, version)


def dynamo_backends(version: Version) -> list[str]:
    """The words that a dynamo backend is checked against."""
    return list(_of(_BACKENDS, version))


def keys(version: Version, *, sagemaker: bool = False) -> tuple[str, ...]:
    """The top-level keys of a configuration."""
    return (*_of(_BASE, version), *_of(_SAGEMAKER if sagemaker else _CLUSTER, version))


def required_keys(version: Version, *, sagemaker: bool = False) -> tuple[str, ...]:
    """The keys that have no value of their own."""
    own = ("ec2_instance_type", "iam_role_name") if sagemaker else ("num_processes",) if version < (0, 34) else ()
    return (*_of(_BASE, version), *own)


def _of(rows: _Rows, version: Version) -> tuple[str, ...]:
    return tuple(name for name, since, until in rows if version >= since and (not until or version < until))
