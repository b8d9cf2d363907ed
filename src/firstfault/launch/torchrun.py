"""What `torchrun` starts: `torchrun`, `python -m torch.distributed.run` and `python -m torch.distributed.launch`.

The order of the checks is that of torch 2.13 (torch/distributed/run.py, launcher/api.py): the first error ends the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from firstfault.launch.expansion import holds_unknown
from firstfault.launch.request import ElasticStart, Request
from firstfault.launch.stop import Stop, stop
from firstfault.launch.torchrun_options import Arguments, read_arguments, takes_value
from firstfault.launch.unknown_words import plan_in_doubt
from firstfault.launch.values import Given, origin
from firstfault.launch.visible import visible_devices
from firstfault.model.plan import NoEffect, Origin, Plan, Spawn, UnknownFact

MODULES = {"torch.distributed.run": False, "torch.distributed.launch": True}
"""The modules that `python -m` runs, and whether the module hands `--local-rank` to the script unless `--use-env` is given."""

DEPRECATED = (
    "FutureWarning: The module torch.distributed.launch is deprecated\n"
    "and will be removed in future. Use torchrun.\n"
    "Note that --use-env is set by default in torchrun.\n"
    "If your script expects `--local-rank` argument to be set, please\n"
    "change it to read from `os.environ['LOCAL_RANK']` instead. See \n"
    "https://pytorch.org/docs/stable/distributed.html#launch-utility for \n"
    "further instructions\n"
)
_THREADS = (
    "torch.distributed.run: \n*****************************************\nSetting OMP_NUM_THREADS environment variable for each"
    " process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal"
    " performance in your application as needed. \n*****************************************"
)
_STREAM = r"^[0123]$"
_STREAMS = r"^(\d:[0123],)*(\d:[0123])$"
_STANDALONE = ("rdzv_backend", "rdzv_endpoint", "rdzv_id")
_STATIC_ONLY = ("node_rank", "master_addr", "master_port")


def plan_torchrun(request: Request) -> Plan:
    """The plan of the command, `rank0` and `processes` left to `worker.complete`."""
    words, legacy = _own_words(request.words)
    doubtful = plan_in_doubt(request, len(request.words) - len(words), takes_value, plan_torchrun)
    if doubtful is not None:
        return doubtful
    prog = "torchrun" if request.words[0].rpartition("/")[2] == "torchrun" else ("launch.py" if legacy else "run.py")
    warnings = (DEPRECATED,) if legacy else ()
    base = Plan(tool="torchrun", command=request.words, gpus=request.machine.gpus)
    try:
        arguments = read_arguments(words, request, prog=prog, legacy=legacy)
        values = arguments.values
        if legacy and values["no_python"] and not values["use_env"]:
            raise stop("ValueError", "When using the '--no-python' flag, you must also set the '--use-env' flag.")
    except Stop as stopped:
        return msgspec.structs.replace(base, error=stopped.error, warnings=warnings)
    start = elastic_start(values, request)
    planned = msgspec.structs.replace(base, warnings=(*warnings, *start.warnings), log=start.log, error=start.error)
    origins, no_effect = _origins(arguments, start, request), tuple(_without_effect(arguments, start))
    if start.error is not None:
        return msgspec.structs.replace(planned, origins=origins, no_effect=no_effect)
    return msgspec.structs.replace(
        planned,
        starter="torchelastic",
        nnodes=start.nnodes,
        node_rank=start.node_rank,
        nproc_per_node=start.nproc_per_node,
        world_size=start.world_size,
        rdzv_backend=start.rdzv_backend,
        rdzv_endpoint=start.rdzv_endpoint,
        env_set=start.env_set,
        spawn=Spawn(kind="elastic_launch", argv=start.argv, entrypoint=start.entrypoint, config=start.config),
        origins=origins,
        no_effect=no_effect,
        unknown=tuple(_unknown(values)),
    )


def _unknown(values: Mapping[str, Any]) -> Iterator[UnknownFact]:
    """The numbers that hang on a variable or a command whose value is not known."""
    for name in ("nproc_per_node", "nnodes", "node_rank"):
        text = str(values[name])
        if holds_unknown(text):
            yield UnknownFact(fact=name, why=f"--{name} is {text}, which is not known here", command=f'echo "{text}"')


def _own_words(words: tuple[str, ...]) -> tuple[tuple[str, ...], bool]:
    """The words behind the launcher's name or behind `python ... -m module`, and whether it is the old module."""
    for position, word in enumerate(words[:-1]):
        if word == "-m" and words[position + 1] in MODULES and position > 0:
            return words[position + 2 :], MODULES[words[position + 1]]
        if position > 0 and not word.startswith("-"):
            break
    return words[1:], False


def elastic_start(arguments: Mapping[str, Any], request: Request) -> ElasticStart:
    """What torchelastic starts from these arguments on this machine; `error` where it raises before it starts anything."""
    stage = _Stage(dict(arguments), request)
    try:
        return stage.run()
    except Stop as stopped:
        return ElasticStart(error=stopped.error, log=tuple(stage.log))


class _Stage:
    """`run` and `config_from_args` of torch, step by step; `log` keeps what was logged before an error."""

    def __init__(self, arguments: dict[str, Any], request: Request) -> None:
        self._given = arguments
        self._request = request
        self.log: list[str] = []

    def run(self) -> ElasticStart:
        given = self._given
        self._choose_rendezvous()
        if given["master_port"] is None:
            given["master_port"] = 29500
        nodes = _nodes(given["nnodes"])
        if nodes is not None and not 0 < nodes[0] <= nodes[1]:
            message = f"min_nodes must be > 0 and <= max_nodes, got min_nodes={nodes[0]}, max_nodes={nodes[1]}"
            raise stop("AssertionError", message)
        if isinstance(given["max_restarts"], int) and given["max_restarts"] < 0:
            raise stop("AssertionError", "max_restarts must be >= 0")
        self._warn_of_rendezvous()
        processes = processes_per_node(str(given["nproc_per_node"]), self._request)
        env_set = self._threads(processes)
        settings = _settings(given["rdzv_conf"])
        if given["rdzv_backend"] == "static":
            settings["rank"] = given["node_rank"]
        endpoint = self._endpoint()
        self._check_outputs()
        config = self._config(nodes, processes, endpoint, settings)
        self._check_shutdown()
        entrypoint, argv = self._entrypoint()
        return ElasticStart(
            nnodes=None if nodes is None else nodes[0] if nodes[0] == nodes[1] else nodes,
            node_rank=_number(given["node_rank"]) if given["rdzv_backend"] == "static" else None,
            nproc_per_node=processes,
            world_size=None if nodes is None or processes is None else nodes[1] * processes,
            rdzv_backend=given["rdzv_backend"],
            rdzv_endpoint=endpoint,
            env_set=env_set,
            log=tuple(self.log),
            entrypoint=entrypoint,
            argv=argv,
            config=config,
        )

    def _choose_rendezvous(self) -> None:
        """One node without an endpoint or a port, and `--standalone`, meet at a free port of this machine."""
        given = self._given
        alone = given["rdzv_backend"] == "static" and not given["rdzv_endpoint"] and given["master_port"] is None
        if not given["standalone"]:
            if not alone:
                return
            nodes = _nodes(given["nnodes"])
            if nodes is None or nodes[1] != 1:
                return
        given.update(rdzv_backend="c10d", rdzv_endpoint="localhost:0", rdzv_id="<uuid>")

    def _warn_of_rendezvous(self) -> None:
        given, backend = self._given, self._given["rdzv_backend"]
        if backend != "static" and not given["rdzv_endpoint"]:
            self.log.append(
                "torch.distributed.run: master_addr is only used for static rdzv_backend and when rdzv_endpoint"
                " is not specified."
            )
        if backend != "static" and given["node_rank"] != 0:
            self.log.append(
                "torch.distributed.run: node_rank is only used for static rdzv_backend. It will be ignored for"
                f" rdzv_backend={backend}."
            )

    def _threads(self, processes: int | None) -> dict[str, str]:
        """One thread for each of several workers, unless the variable is set."""
        if self._request.variable("OMP_NUM_THREADS") is not None or processes is None or processes <= 1:
            return {}
        self.log.append(_THREADS)
        return {"OMP_NUM_THREADS": "1"}

    def _endpoint(self) -> str:
        given = self._given
        if given["rdzv_backend"] == "static" and not given["rdzv_endpoint"]:
            return f"{given['master_addr']}:{given['master_port']}"
        return str(given["rdzv_endpoint"])

    def _check_outputs(self) -> None:
        given = self._given
        if given["local_ranks_filter"] and not holds_unknown(given["local_ranks_filter"]):
            try:
                [int(rank) for rank in given["local_ranks_filter"].split(",")]
            except ValueError as error:
                message = "--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2"
                raise stop("ValueError", message) from error
        if given["logs_specs"] is not None:
            # Whether a package registers this name is not known here; without one torch stops.
            name = given["logs_specs"]
            raise stop("ValueError", f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")
        for name in ("redirects", "tee"):
            text = given[name]
            if not (holds_unknown(text) or re.match(_STREAM, text) or re.match(_STREAMS, text)):
                raise stop("ValueError", f"{text} does not match: <{_STREAM}> or <{_STREAMS}>")

    def _config(
        self, nodes: tuple[int, int] | None, processes: int | None, endpoint: str, settings: dict[str, Any]
    ) -> dict[str, Any]:
        given = self._given
        return {
            "local_addr": given["local_addr"],
            "max_nodes": nodes[1] if nodes else None,
            "max_restarts": given["max_restarts"],
            "min_nodes": nodes[0] if nodes else None,
            "monitor_interval": given["monitor_interval"],
            "nproc_per_node": processes,
            "rdzv_backend": given["rdzv_backend"],
            "rdzv_configs": {"timeout": 900, **settings},
            "rdzv_endpoint": endpoint,
            "role": given["role"],
            "run_id": given["rdzv_id"],
            "start_method": given["start_method"],
            "virtual_local_rank": given["virtual_local_rank"],
        }

    def _entrypoint(self) -> tuple[str, tuple[str, ...]]:
        """The program that each worker runs, and its words."""
        given = self._given
        script, rest = str(given["training_script"]), tuple(given["training_script_args"])
        legacy = given.get("use_env") is False
        rest = ("--local-rank=${local_rank}", *rest) if legacy else rest
        if given["run_path"]:
            return "run_script_path", (script, *rest)
        if given["no_python"]:
            if given["module"]:
                message = "Don't use both the '--no-python' flag and the '--module' flag at the same time."
                raise stop("ValueError", message)
            return script, rest
        module = ("-m",) if given["module"] else ()
        return self._request.variable("PYTHON_EXEC") or "<python>", ("-u", *module, script, *rest)

    def _check_shutdown(self) -> None:
        seconds = self._given.get("shutdown_timeout")
        if seconds is None:
            _whole_number(self._request.variable("TORCH_ELASTIC_SHUTDOWN_TIMEOUT"))
        elif isinstance(seconds, int) and seconds < 0:
            raise stop("ValueError", f"shutdown_timeout must be non-negative, got {seconds}")


def _whole_number(text: str | None) -> None:
    """Raises `Stop` as Python does for a variable that is no whole number; one that is not set or not known passes."""
    if text is None or holds_unknown(text):
        return
    try:
        int(text)
    except ValueError as error:
        raise stop("ValueError", str(error)) from error


def processes_per_node(asked: str, request: Request) -> int | None:
    """The workers of one node: a number, or `cpu`, `gpu`, `xpu`, `auto` counted on this machine; None if that is unknown.

    There is no upper limit, and 0 and -1 pass here. Raises `Stop` where torch finds no such device or does not know the word.
    """
    if holds_unknown(asked):
        return None
    try:
        return int(asked)
    except ValueError:
        pass
    visible = visible_devices(request.variable("CUDA_VISIBLE_DEVICES"), request.machine.gpus)
    gpus = None if visible is None else len(visible)
    if asked == "cpu":
        return request.machine.cpus
    if asked == "gpu":
        if gpus == 0:
            raise stop("ValueError", "Cuda is not available.")
        return gpus
    if asked == "xpu":
        raise stop("ValueError", "Xpu is not available.")
    if asked == "auto":
        return request.machine.cpus if gpus == 0 else gpus
    raise stop("ValueError", f"Unsupported nproc_per_node value: {asked}")


def _nodes(text: str) -> tuple[int, int] | None:
    """Least and most nodes of `N` or `MIN:MAX`; None while a variable in it is unknown."""
    if holds_unknown(text):
        return None
    parts = text.split(":")
    if len(parts) > 2:
        raise stop("RuntimeError", f'nnodes={text} is not in "MIN:MAX" format')
    try:
        return int(parts[0]), int(parts[-1])
    except ValueError as error:
        raise stop("ValueError", str(error)) from error


def _settings(text: str) -> dict[str, Any]:
    """The pairs of `--rdzv_conf`, as torch keeps them: values stay text."""
    settings: dict[str, Any] = {}
    if not text.strip():
        return settings
    for pair in text.strip().split(","):
        key, _, value = pair.partition("=")
        if not key.strip():
            message = "The rendezvous configuration string must be in format <key1>=<value1>,...,<keyN>=<valueN>."
            raise stop("ValueError", message)
        if not value.strip():
            raise stop("ValueError", f"The rendezvous configuration option '{key.strip()}' must have a value specified.")
        settings[key.strip()] = value.strip()
    return settings


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _origins(arguments: Arguments, start: ElasticStart, request: Request) -> tuple[Origin, ...]:
    """Where the values that shape the start come from."""
    values = arguments.origins
    found = [origin(name, values[name]) for name in ("nnodes", "nproc_per_node", "max_restarts")]
    if start.rdzv_backend is not None:
        rule = Given(start.rdzv_backend, "derived", "one node without an endpoint or a port meets at a free port")
        decided = values["standalone"] if values["standalone"].value else values["rdzv_backend"]
        if not values["standalone"].value and start.rdzv_backend != values["rdzv_backend"].value:
            decided = rule
        found.append(origin("rdzv_backend", Given(start.rdzv_backend, decided.source, decided.where)))
        if start.rdzv_backend == "static":
            found.extend(origin(name, values[name]) for name in ("master_addr", "master_port"))
        elif start.rdzv_endpoint == values["rdzv_endpoint"].value:
            found.append(origin("rdzv_endpoint", values["rdzv_endpoint"]))
        else:
            found.append(origin("rdzv_endpoint", Given(start.rdzv_endpoint, decided.source, decided.where)))
    if start.rdzv_backend == "static":
        found.append(origin("node_rank", values["node_rank"]))
    threads = request.environment.get("OMP_NUM_THREADS")
    if threads is not None:
        found.append(origin("OMP_NUM_THREADS", threads))
    elif "OMP_NUM_THREADS" in start.env_set:
        found.append(origin("OMP_NUM_THREADS", Given("1", "derived", "several workers and the variable is not set")))
    return tuple(found)


def _without_effect(arguments: Arguments, start: ElasticStart) -> list[NoEffect]:
    """Options and PET_* variables that were given and change nothing."""
    lost: list[tuple[tuple[str, ...], str]] = []
    if arguments.values["standalone"]:
        lost.append((_STANDALONE, "--standalone puts its own in its place"))
    if start.rdzv_backend not in (None, "static"):
        lost.append((_STATIC_ONLY, f"only a static rendezvous reads it, this one is {start.rdzv_backend}"))
    elif start.rdzv_backend == "static" and arguments.values["rdzv_endpoint"]:
        lost.append((_STATIC_ONLY[1:], "--rdzv_endpoint names the place"))
    given = {name: found for name, found in arguments.origins.items() if found.source in ("flag", "variable")}
    return [NoEffect(key=name, where=given[name].where, why=why) for names, why in lost for name in names if name in given]
