"""Which of its launchers `accelerate launch` takes, and what that one starts.

Follows `launch_command` and the launchers of accelerate/commands/launch.py.
"""

from __future__ import annotations

from typing import Any

import msgspec

from firstfault.launch.accelerate_environment import (
    Environment,
    changed,
    deepspeed_environment,
    elastic_environment,
    simple_environment,
)
from firstfault.launch.accelerate_settle import Settled
from firstfault.launch.flag_table import Arguments
from firstfault.launch.request import ElasticStart, Request, Version, program_name, version_numbers
from firstfault.launch.values import Given
from firstfault.model.plan import Plan, Spawn

_BUSY = (
    "Tried to launch distributed communication on port `{port}`, but another process is utilizing it. "
    "Please specify a different port (such as using the `{dashes}main_process_port` flag or specifying a different "
    "`main_process_port` in your config file) and rerun your script. To automatically use the next open port (on a single "
    "node), you can set this to `0`."
)
_ALONE = (
    "UserWarning: Port `{port}` is already in use. Accelerate will attempt to launch in a standalone-like mode by finding an "
    "open port automatically for this session. If this current attempt fails, or for more control in future runs, please "
    "specify a different port (e.g., `--main_process_port <your_chosen_port>`) or use `--main_process_port 0` for automatic "
    "selection in your launch command or Accelerate config file."
)
_GOOD_DRIVER = (550, 40, 7)


class Start(msgspec.Struct, kw_only=True):
    """What is known of a start so far; an exception of the launcher leaves the rest open."""

    launcher: str | None = None
    plan: Plan
    environment: Environment = {}
    warnings: list[str] = []
    log: list[str] = []


def launcher_name(settled: Settled) -> str:
    """The function of accelerate that starts the processes."""
    arguments = settled.arguments
    if not arguments.value("cpu"):
        if arguments.value("use_deepspeed"):
            return "deepspeed_launcher"
        if any(arguments.get(mode) for mode in ("use_fsdp", "use_tp", "use_megatron_lm", "multi_gpu")):
            return "multi_gpu_launcher"
        if arguments.value("tpu"):
            return "tpu_pod_launcher" if arguments.value("tpu_use_cluster") else "tpu_launcher"
    if settled.config is not None and settled.config.value("compute_environment") == "AMAZON_SAGEMAKER":
        return "sagemaker_launcher"
    return "simple_launcher"


def fill_start(start: Start, settled: Settled, request: Request, version: Version) -> None:
    """Completes `start`; raises what accelerate or torch raises, with what was decided before kept in `start`."""
    if start.launcher == "simple_launcher":
        _simple(start, settled.arguments, request, version)
    elif start.launcher == "multi_gpu_launcher":
        _several(start, settled.arguments, request, version)
    elif start.launcher == "deepspeed_launcher":
        _deepspeed(start, settled, request, version)
    elif start.launcher == "sagemaker_launcher":
        _sagemaker(settled.arguments, request)
    else:
        _tpu(start, settled.arguments, request)


def _simple(start: Start, arguments: Arguments, request: Request, version: Version) -> None:
    if arguments.value("no_python") and arguments.value("module"):
        raise ValueError("--module and --no_python cannot be used together")
    command: list[str] = []
    mpi = version >= (0, 28) and arguments.value("mpirun_hostfile") is not None
    if mpi:
        command += _mpirun(arguments, request, version)
    if not arguments.value("no_python"):
        command.append("<python>")
        if arguments.value("module"):
            command.append("-m")
    command += [arguments.value("training_script"), *arguments.value("training_script_args")]
    start.environment = simple_environment(arguments, request, version)
    for value in start.environment.values():
        if not isinstance(value, str):
            raise TypeError(f"expected str, bytes or os.PathLike object, not {type(value).__name__}")
    processes, machines = arguments.value("num_processes"), arguments.value("num_machines")
    start.plan = msgspec.structs.replace(
        start.plan,
        starter="mpirun" if mpi else "python",
        nnodes=None if mpi else 1,
        nproc_per_node=(processes // machines if processes and machines else 1) if mpi else 1,
        world_size=(processes or None) if mpi else 1,
        env_set=changed(start.environment, request),
        spawn=Spawn(kind="popen", argv=tuple(str(word) for word in command)),
    )


def _mpirun(arguments: Arguments, request: Request, version: Version) -> list[str]:
    flavour = request.machine.mpirun
    if flavour == "":
        raise OSError("mpirun or mpiexec were not found. Ensure that Intel MPI, Open MPI, or MVAPICH are installed.")
    processes, machines = arguments.value("num_processes"), arguments.value("num_machines")
    share = str(processes // machines) if processes and machines else "1"
    intel = flavour == "intel"
    names = ("-f", "-ppn") if intel else ("--hostfile", "--npernode")
    command = ["mpirun", names[0], arguments.value("mpirun_hostfile"), names[1], share]
    if processes:
        command += ["-n", str(processes)]
    if not intel and version >= (0, 32):
        command += ["--bind-to", "socket"]
    return command


def _several(start: Start, arguments: Arguments, request: Request, version: Version) -> None:
    _meet(start, arguments, request, version)
    start.environment = elastic_environment(arguments, request, version)
    _consumer_cards(start, request, version)
    _elastic(start, arguments, request)


def _deepspeed(start: Start, settled: Settled, request: Request, version: Version) -> None:
    arguments = settled.arguments
    fields = list(settled.config.value("deepspeed_config").keys()) if settled.config is not None else []
    if settled.precision_of_file:
        fields.append("mixed_precision")
    text = ",".join(fields)
    if request.versions.get("deepspeed") == "":
        raise ImportError("DeepSpeed is not installed => run `pip3 install deepspeed` or build it from source.")
    command = _meet(start, arguments, request, version, deepspeed=True)
    start.environment = deepspeed_environment(arguments, request, version, text)
    _consumer_cards(start, request, version)
    if command is None:
        _elastic(start, arguments, request)
        return
    counted = "--num_gpus" in command[: -1 - len(arguments.value("training_script_args"))]
    start.plan = msgspec.structs.replace(
        start.plan,
        starter="deepspeed",
        nproc_per_node=arguments.value("num_processes") // arguments.value("num_machines") if counted else None,
        env_set=changed(start.environment, request),
        spawn=Spawn(kind="popen", argv=tuple(command)),
    )


def _meet(
    start: Start, arguments: Arguments, request: Request, version: Version, *, deepspeed: bool = False
) -> list[str] | None:
    """Settles processes, machines and the place where they meet; the words of a `deepspeed` command where one is started."""
    if version >= (1, 7):
        if arguments.value("main_process_port") == 0:
            arguments.put("main_process_port", "*", where="a free port: 0 was asked for")
        elif arguments.value("main_process_port") is None:
            arguments.given["main_process_port"] = Given(29500, "default", "built in")
    processes, machines = arguments.value("num_processes"), arguments.value("num_machines")
    address, port = arguments.value("main_process_ip"), arguments.value("main_process_port")
    command = None
    if deepspeed and arguments.value("deepspeed_multinode_launcher") is None:
        arguments.given["deepspeed_multinode_launcher"] = Given("pdsh", "default", "built in")
    if machines > 1 and deepspeed and arguments.value("deepspeed_multinode_launcher") != "standard":
        command = _deepspeed_command(arguments, request, version)
    elif machines > 1:
        arguments.put("nproc_per_node", str(processes // machines), where="num_processes over num_machines")
        arguments.put("nnodes", str(machines), where="num_machines")
        arguments.put("node_rank", int(arguments.value("machine_rank")), where="machine_rank")
        if arguments.get("same_network", False):
            arguments.put("master_addr", str(address), where="main_process_ip")
            arguments.put("master_port", str(port), where="main_process_port")
        else:
            arguments.put("rdzv_endpoint", f"{address}:{port}", where="main_process_ip and main_process_port")
    else:
        arguments.put("nproc_per_node", str(processes), where="num_processes")
        if port is not None:
            arguments.put("master_port", str(port), where="main_process_port")
    _check_port(start, arguments, request, version)
    if arguments.value("module") and arguments.value("no_python"):
        raise ValueError("--module and --no_python cannot be used together")
    return command


def _check_port(start: Start, arguments: Arguments, request: Request, version: Version) -> None:
    """A busy port stops the launch, or lets it meet elsewhere; only the main machine looks."""
    if version < (0, 21):
        return
    machines = arguments.value("num_machines")
    port = arguments.value("main_process_port")
    port = 29500 if port is None else port
    if not (version < (0, 25) or machines <= 1 or int(arguments.value("machine_rank")) == 0):
        return
    if port not in request.machine.ports_in_use:
        return
    if version >= (1, 8) and machines <= 1:
        arguments.put("standalone", True, where=f"port {port} is in use")
        start.warnings.append(_ALONE.format(port=port))
        return
    raise ConnectionError(_BUSY.format(port=port, dashes="--" if version >= (0, 28) else "----"))


def _deepspeed_command(arguments: Arguments, request: Request, version: Version) -> list[str]:
    kind = str(arguments.value("deepspeed_multinode_launcher"))
    hosts = ["--hostfile", str(arguments.value("deepspeed_hostfile"))]
    if version < (1, 6):
        command = ["deepspeed", "--no_local_rank", *hosts, "--launcher", kind]
    elif kind == "nossh":
        installed = request.version("deepspeed")
        if installed is not None and installed < (0, 14, 5):
            raise ValueError("nossh launcher requires DeepSpeed >= 0.14.5")
        command = ["deepspeed", *hosts, "--node_rank", str(arguments.value("machine_rank")), "--no_ssh"]
    else:
        command = ["deepspeed", *hosts, "--no_local_rank", "--launcher", kind]
    if arguments.value("deepspeed_exclusion_filter") is not None:
        command += ["--exclude", str(arguments.value("deepspeed_exclusion_filter"))]
    elif arguments.value("deepspeed_inclusion_filter") is not None:
        command += ["--include", str(arguments.value("deepspeed_inclusion_filter"))]
    else:
        command += ["--num_gpus", str(arguments.value("num_processes") // arguments.value("num_machines"))]
    if version >= (0, 29) and arguments.value("main_process_ip"):
        command += ["--master_addr", str(arguments.value("main_process_ip"))]
    command += ["--master_port", str(arguments.value("main_process_port"))]
    if arguments.value("module") and arguments.value("no_python"):
        raise ValueError("--module and --no_python cannot be used together")
    if arguments.value("module"):
        command.append("--module")
    elif arguments.value("no_python"):
        command.append("--no_python")
    return [*command, arguments.value("training_script"), *arguments.value("training_script_args")]


def _consumer_cards(start: Start, request: Request, version: Version) -> None:
    """Cards that cannot exchange memory directly: NCCL is told not to try, with old drivers."""
    name, gpus = request.machine.gpu_name, request.machine.gpus
    cards = ("RTX 3090", "RTX 40") if version < (0, 27) else ("RTX 40",)
    if version < (0, 25) or name is None or gpus is None or gpus <= 1 or not any(card in name for card in cards):
        return
    driver = request.machine.driver
    if version >= (0, 29) and (driver is None or version_numbers(driver) >= _GOOD_DRIVER):
        return
    unset = [variable for variable in ("NCCL_P2P_DISABLE", "NCCL_IB_DISABLE") if variable not in start.environment]
    start.environment.update(dict.fromkeys(unset, "1"))
    if unset:
        which = "RTX 3090 or 4000 series" if version < (0, 27) else "RTX 4000 series"
        start.log.append(
            f"accelerate.commands.launch: Using {which} which doesn't support faster communication speedups. "
            "Ensuring P2P and IB communications are disabled."
        )


def _elastic(start: Start, arguments: Arguments, request: Request) -> None:
    """torchelastic with torchrun's own arguments, those of accelerate put above them where the names agree."""
    from firstfault.launch.torchrun import elastic_start
    from firstfault.launch.torchrun_options import default_arguments

    values: dict[str, Any] = dict(default_arguments(request, prog=program_name(request.words[0])))
    values.update({name: given.value for name, given in arguments.given.items() if name in values})
    environment = {name: Given(value, "derived", "accelerate launch") for name, value in start.environment.items()}
    found: ElasticStart = elastic_start(values, msgspec.structs.replace(request, environment=environment))
    start.log += found.log
    start.warnings += found.warnings
    start.environment = {**start.environment, **found.env_set}
    start.plan = msgspec.structs.replace(
        start.plan,
        error=found.error,
        starter=None if found.error else "torchelastic",
        nnodes=found.nnodes,
        node_rank=found.node_rank,
        nproc_per_node=found.nproc_per_node,
        world_size=found.world_size,
        rdzv_backend=found.rdzv_backend,
        rdzv_endpoint=found.rdzv_endpoint,
        env_set={} if found.error else changed(start.environment, request),
        spawn=None
        if found.error
        else Spawn(kind="elastic_launch", argv=found.argv, entrypoint=found.entrypoint, config=found.config),
    )


def _sagemaker(arguments: Arguments, request: Request) -> None:
    if not request.versions.get("sagemaker"):
        raise ImportError(
            "Please install sagemaker to be able to launch training on Amazon SageMaker with "
            "`pip install accelerate[sagemaker]`"
        )
    if arguments.value("module") or arguments.value("no_python"):
        raise ValueError("SageMaker requires a python training script file and cannot be used with --module or --no_python")


def _tpu(start: Start, arguments: Arguments, request: Request) -> None:
    """TPUs need torch_xla, which is taken to be absent unless its version is known."""
    if not request.versions.get("torch_xla"):
        raise ModuleNotFoundError("No module named 'torch_xla'")
    if start.launcher == "tpu_launcher" and arguments.value("no_python"):
        raise ValueError("--no_python cannot be used with TPU launcher")
