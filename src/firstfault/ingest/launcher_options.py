"""Which options belong to a launcher, and which of them take no value."""

from __future__ import annotations

LAUNCHERS = frozenset({"accelerate", "torchrun", "deepspeed", "python", "srun", "mpirun"})

MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "deepspeed": "deepspeed",
}

# Modules and programs that start no training.
TOOLS = frozenset(
    {
        "pip", "venv", "ensurepip", "torch.utils.collect_env", "http.server", "ipykernel", "ipykernel_launcher", "build",
        "json.tool", "site",
    }
)  # fmt: skip

FLAGS = {
    "accelerate": frozenset(
        {
            "--multi_gpu", "--cpu", "--tpu", "--mps", "--use_deepspeed", "--use_fsdp", "--use_megatron_lm", "--use_xpu",
            "--quiet", "-q", "--debug", "--module", "-m", "--no_python", "--same_network", "--enable_cpu_affinity",
            "--tpu_cluster", "--no_tpu_cluster", "--tpu_use_cluster", "--tpu_use_sudo", "--downcast_bf16",
            "--dynamo_use_fullgraph", "--dynamo_use_dynamic", "--dynamo_use_regional_compilation", "--use_parallelism_config",
            "--fp16", "--use_mps_device", "--ipex",
        }
    ),
    "torchrun": frozenset(
        {"--standalone", "--no_python", "--module", "-m", "--run_path", "--virtual_local_rank", "--use_env"}
    ),
    "deepspeed": frozenset(
        {
            "--module", "--no_python", "--no_local_rank", "--no_ssh", "--no_ssh_check", "--force_multi", "--save_pid",
            "--elastic_training", "--bind_cores_to_rank",
        }
    ),
    "python": frozenset({"-u", "-O", "-OO", "-B", "-s", "-S", "-E", "-I", "-v", "-b", "-d", "-q", "-P", "-x"}),
    "srun": frozenset(
        {"-l", "--label", "-u", "--unbuffered", "--exclusive", "--overlap", "--pty", "-K", "--exact", "-v", "-Q", "--quiet"}
    ),
    "mpirun": frozenset({"--allow-run-as-root", "--oversubscribe", "-v", "--tag-output", "--verbose", "--report-bindings"}),
}  # fmt: skip

SLURM_SHORT = {
    "-N": "--nodes", "-n": "--ntasks", "-t": "--time", "-p": "--partition", "-c": "--cpus-per-task", "-G": "--gpus",
    "-w": "--nodelist",
}  # fmt: skip

# torchrun takes any unambiguous beginning of an option, as argparse does.
TORCHRUN_OPTIONS = (
    "--nnodes", "--nproc_per_node", "--rdzv_backend", "--rdzv_endpoint", "--rdzv_id", "--rdzv_conf", "--standalone",
    "--max_restarts", "--monitor_interval", "--start_method", "--role", "--module", "--no_python", "--run_path",
    "--log_dir", "--redirects", "--tee", "--local_ranks_filter", "--node_rank", "--master_addr", "--master_port",
    "--local_addr", "--logs_specs", "--numa_binding", "--virtual_local_rank", "--use_env", "--event_log_handler",
    "--signals_to_handle",
)  # fmt: skip


def option_name(launcher: str, word: str) -> str:
    """The option's own spelling: underscores for the Python launchers, long names for Slurm, abbreviations written out."""
    if launcher == "srun":
        return SLURM_SHORT.get(word, word)
    if launcher == "mpirun" or not word.startswith("--"):
        return word
    name = "--" + word[2:].replace("-", "_")
    if launcher == "torchrun" and name not in TORCHRUN_OPTIONS:
        longer = [known for known in TORCHRUN_OPTIONS if known.startswith(name)]
        if len(longer) == 1:
            return longer[0]
    return name
