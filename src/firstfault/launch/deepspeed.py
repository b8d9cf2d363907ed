"""What the `deepspeed` command starts (launcher/runner.py and launcher/launch.py of DeepSpeed 0.18.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from firstfault.launch.deepspeed_options import DEFAULT_HOSTFILE, DEFAULT_PORT, read_deepspeed, tried_values
from firstfault.launch.elastic_workers import DRAWN, MAX_PROCESSES
from firstfault.launch.expansion import holds_unknown
from firstfault.launch.hostfile import Slots, filter_hosts, read_hostfile
from firstfault.launch.request import Request
from firstfault.launch.stop import Stop, stop
from firstfault.launch.unknown_words import plan_in_doubt
from firstfault.launch.values import Given, origin
from firstfault.launch.visible import visible_devices
from firstfault.model.plan import NoEffect, Origin, Plan, PlannedError, Process, Spawn, UnknownFact

_LIMITS = ("include", "exclude", "num_nodes", "num_gpus")
_RUNNERS = frozenset({"pdsh", "openmpi", "mpich", "impi", "mvapich", "slurm"})
_SENT = ("MLFLOW", "PYTHON", "MV2", "UCX", "NCCL")
"""Beginnings of the variables that reach the other machines; DLTS and Nebula add their own."""


def plan_deepspeed(request: Request) -> Plan:
    """The plan of the command with its processes on this machine, `rank0` left to `worker.complete`."""
    doubtful = plan_in_doubt(request, 1, tried_values, plan_deepspeed)
    if doubtful is not None:
        return doubtful
    start = _Start(request)
    try:
        return start.plan()
    except Stop as stopped:
        return start.stopped(stopped.error)


class _Start:
    """The steps of `main` in runner.py, in their order."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._values: dict[str, Any] = {}
        self._taken: dict[str, str] = {}
        self._log: list[str] = []
        self._removed: tuple[str, ...] = ()
        self._no_effect: list[NoEffect] = []
        self._notes: list[str] = []
        self._unknown: tuple[UnknownFact, ...] = ()

    def stopped(self, error: PlannedError) -> Plan:
        """The plan of a start that ends in an error."""
        return msgspec.structs.replace(self._base(), error=error)

    def _base(self) -> Plan:
        return Plan(
            tool="deepspeed",
            command=self._request.words,
            gpus=self._request.machine.gpus,
            env_removed=self._removed,
            log=tuple(self._log),
            no_effect=tuple(self._no_effect),
            notes=tuple(self._notes),
            unknown=self._unknown,
        )

    def plan(self) -> Plan:
        self._values, self._taken = read_deepspeed(self._request.words[1:])
        values = self._values
        if values["elastic_training"] and not values["master_addr"]:
            raise stop("AssertionError", "Master Addr is required when elastic training is enabled")
        pool = self._pool()
        self._take_visible_devices(pool)
        if (_given(values["num_nodes"]) or _given(values["num_gpus"])) and (values["include"] or values["exclude"]):
            raise stop("ValueError", "Cannot specify num_nodes/gpus with include/exclude")
        if pool is None:
            pool = self._local_pool()
            if pool is None:
                return self._uncounted()
        active = self._limit(filter_hosts(pool, values["include"], values["exclude"]))
        if values["elastic_training"] and values["no_local_rank"]:
            raise stop("AssertionError", "--no_local_rank argument is not supported in Elastic training")
        return self._started(active)

    def _pool(self) -> dict[str, int] | None:
        path = self._values["hostfile"]
        text = None if holds_unknown(path) else self._request.read(path)
        if text is None:
            self._log.append("Unable to find hostfile, will proceed with training with local resources only.")
            if path != DEFAULT_HOSTFILE:
                self._notes.append(f"the hostfile {path} is not at hand: planned as if it did not exist, on this machine alone")
                why = f"{path} may name more machines and slots"
                self._unknown = (UnknownFact(fact="hostfile", why=why, command=f"cat {path}"),)
            return None
        return read_hostfile(text)

    def _take_visible_devices(self, pool: Mapping[str, int] | None) -> None:
        """Without a hostfile the variable becomes `--include`, or is ignored; it is removed either way."""
        listed, values = self._request.variable("CUDA_VISIBLE_DEVICES"), self._values
        if pool is not None or not listed:
            return
        limited = values["include"] or values["exclude"] or _above(values["num_nodes"], 1) or _above(values["num_gpus"], 0)
        if limited:
            why = "--include, --exclude, --num_gpus or --num_nodes is given: the variable is ignored and removed"
            self._no_effect.append(NoEffect(key="CUDA_VISIBLE_DEVICES", where="CUDA_VISIBLE_DEVICES", why=why))
            self._log.append(
                f"Detected VISIBLE_DEVICES={listed} but ignoring it because one or several of"
                " --include/--exclude/--num_gpus/--num_nodes cl args were used. If you want to use CUDA_VISIBLE_DEVICES"
                " don't pass any of these arguments to deepspeed."
            )
        else:
            values["include"] = f"localhost:{listed}"
            self._log.append(f"Detected VISIBLE_DEVICES={listed}: setting --include={values['include']}")
        self._removed = ("CUDA_VISIBLE_DEVICES",)

    def _local_pool(self) -> dict[str, int] | None:
        """This machine with one slot for each GPU, counted after the variable was removed."""
        listed = None if self._removed else self._request.variable("CUDA_VISIBLE_DEVICES")
        visible = visible_devices(listed, self._request.machine.gpus)
        if visible is not None and not visible:
            raise stop("RuntimeError", "Unable to proceed, no GPU resources available")
        self._values["master_addr"] = "127.0.0.1"
        if _above(self._values["num_nodes"], 1):
            raise stop("ValueError", "Num nodes is >1 but no extra nodes available via hostfile")
        if visible is None:
            named = self._values["include"] or self._values["num_gpus"] > 0
            return {"localhost": MAX_PROCESSES} if named else None
        return {"localhost": len(visible)}

    def _limit(self, active: Slots) -> Slots:
        """The first hosts, and ids 0 to N-1 on each of them, whatever the hostfile says of its slots."""
        nodes, gpus = self._values["num_nodes"], self._values["num_gpus"]
        if _above(nodes, 0):
            active = dict(list(active.items())[:nodes])
        if _above(gpus, 0):
            active = {host: list(range(min(gpus, MAX_PROCESSES))) for host in active}
        return active

    def _started(self, active: Slots) -> Plan:
        values = self._values
        hosts, rank = list(active), 0
        if values["no_ssh"]:
            rank = values["node_rank"]
            if isinstance(rank, int) and not 0 <= rank < len(active):
                message = "Launching training without ssh, but --node_rank is not set correctly."
                raise stop("AssertionError", message)
        if not active:
            # `--include HOST` without slots, too, chooses nothing; the program behind then takes the first of no hosts.
            raise stop("IndexError", "list index out of range")
        remote = (values["force_multi"] or len(active) > 1) and not values["no_ssh"]
        if remote and values["launcher"].lower() not in _RUNNERS:
            raise stop("NotImplementedError", f"Unknown launcher {values['launcher'].lower()}")
        if values["no_python"] and values["module"]:
            message = "Don't use both the '--no_python' flag and the '--module' flag at the same time."
            raise stop("ValueError", message)
        if remote:
            self._notes.append(self._what_travels())
        index = rank if isinstance(rank, int) else 0
        slots = active[hosts[index]] if index < len(hosts) else []
        before = sum(len(active[host]) for host in hosts[:index])
        world = sum(len(found) for found in active.values())
        processes = tuple(
            self._process(before + local, local, slots, world, (index, len(hosts)))
            for local in range(min(len(slots), MAX_PROCESSES))
        )
        return msgspec.structs.replace(
            self._base(),
            starter="deepspeed",
            launcher=values["launcher"].lower() if remote else None,
            nnodes=len(hosts),
            node_rank=rank if isinstance(rank, int) else None,
            nproc_per_node=len(slots),
            world_size=world,
            processes=processes,
            spawn=Spawn(kind="popen", argv=self._argv(slots)),
            origins=self._origins(),
        )

    def _process(self, rank: int, local: int, slots: list[int], world: int, node: tuple[int, int]) -> Process:
        """One worker: CUDA_VISIBLE_DEVICES lists the chosen ids of the machine, LOCAL_RANK counts within them."""
        values = self._values
        listed = ",".join(map(str, slots))
        env = {
            "CUDA_VISIBLE_DEVICES": listed,
            "MASTER_ADDR": values["master_addr"] or DRAWN,
            "MASTER_PORT": str(values["master_port"]),
            "WORLD_SIZE": str(world),
            "CROSS_RANK": str(node[0]),
            "CROSS_SIZE": str(node[1]),
            "LOCAL_SIZE": str(len(slots)),
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % len(slots)),
        }
        visible = visible_devices(listed, self._request.machine.gpus)
        return Process(rank=rank, local_rank=rank % len(slots), visible=visible, env=dict(sorted(env.items())))

    def _argv(self, slots: list[int]) -> tuple[str, ...]:
        """The words of the first worker."""
        values = self._values
        python = () if values["no_python"] else ("<python>", "-u", "-m") if values["module"] else ("<python>", "-u")
        local = () if values["no_local_rank"] or not slots else ("--local_rank=0",)
        return (*python, values["user_script"], *local, *values["user_args"])

    def _origins(self) -> tuple[Origin, ...]:
        found = []
        for name in (*_LIMITS, "hostfile", "master_port", "master_addr", "launcher"):
            value = self._values[name]
            if name in self._taken:
                found.append(origin(name, Given(value, "flag", self._taken[name])))
            elif name == "include" and value:
                found.append(origin(name, Given(value, "variable", "CUDA_VISIBLE_DEVICES")))
            elif name == "master_port":
                found.append(origin(name, Given(DEFAULT_PORT, "default", "default of --master_port")))
        return tuple(found)

    def _what_travels(self) -> str:
        files = [path for path in (f"{self._request.home}/.deepspeed_env", ".deepspeed_env") if self._request.read(path)]
        sent = sorted(name for name in self._request.environment if name.startswith(_SENT))
        names = ", ".join(sent[:20]) or "none is set"
        read = f" and the lines of {', '.join(files)}" if files else ""
        return f"only variables beginning with {', '.join(_SENT)} reach the other machines ({names}){read}"

    def _uncounted(self) -> Plan:
        why = "without a hostfile deepspeed starts one process for each GPU of this machine"
        unknown = UnknownFact(fact="gpus", why=why, command="nvidia-smi -L")
        return msgspec.structs.replace(
            self._base(), starter="deepspeed", nnodes=1, unknown=(*self._unknown, unknown), origins=self._origins()
        )


def _given(value: object) -> bool:
    return isinstance(value, int) and value >= 0


def _above(value: object, limit: int) -> bool:
    return isinstance(value, int) and value > limit
