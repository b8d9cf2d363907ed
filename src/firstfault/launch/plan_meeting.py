"""What of a plan keeps its machines from meeting: endpoints nobody else reaches, ranks that are equal, a port that is taken."""

from __future__ import annotations

from collections.abc import Iterator

from firstfault.launch.plan_facts import at, fact, place
from firstfault.launch.request import Request
from firstfault.launch.values import origin_of
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.plan import Plan

_OWN_HOST = ("", "localhost", "127.0.0.1", "[::1]", "0.0.0.0")
_ADDRESS = ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "GROUP_RANK")
_ENDPOINTS = ("rdzv_endpoint", "master_addr")
_DEFAULT_PORT = "29500"
_WRITTEN_RANK = lazy_pattern(r"--(?:machine|node)[-_]rank[= ]\s*\d+(?![\w$])")


def meeting(plan: Plan, inner: Request) -> Iterator[Fact]:
    """Facts of the rendezvous; `inner` is the request as the launcher gets it."""
    most = plan.nnodes[1] if isinstance(plan.nnodes, tuple) else plan.nnodes
    several = most is not None and most > 1
    backend = origin_of(plan, "rdzv_backend")
    standalone = backend is not None and "standalone" in backend.where.lower()
    if standalone and several:
        yield fact("plan.standalone_island", True, *at(backend))
    elif standalone and plan.tool == "torchrun":
        yield from _replaced(plan)
    elif several and plan.starter == "torchelastic":
        yield from _alone(plan, inner)
    yield from _equal_ranks(plan)
    yield from _port(plan, inner)
    if plan.error is not None and plan.error.type == "TypeError" and "int() argument" in plan.error.message:
        yield from _rank_missing(plan)
    if plan.spawn is not None and plan.tool == "accelerate" and _pairs(plan.spawn.argv, "--hostfile") == "None":
        yield fact("plan.hostfile_missing", True, "deepspeed_hostfile is not given")


def _replaced(plan: Plan) -> Iterator[Fact]:
    """An address that `--standalone` puts aside."""
    lost = [one for one in plan.no_effect if one.key in _ENDPOINTS]
    if lost:
        yield fact("plan.standalone_endpoint", ", ".join(one.where for one in lost), lost[0].where)


def _alone(plan: Plan, inner: Request) -> Iterator[Fact]:
    """Several machines, and the meeting point is this one for each of them."""
    if plan.rdzv_endpoint is None or "$" in plan.rdzv_endpoint:
        return
    host = plan.rdzv_endpoint.rpartition(":")[0] if ":" in plan.rdzv_endpoint else plan.rdzv_endpoint
    row = origin_of(plan, "rdzv_endpoint") or origin_of(plan, "master_addr") or origin_of(plan, "main_process_ip")
    if host in _OWN_HOST:
        yield fact("plan.meets_itself", plan.rdzv_endpoint or "localhost", *at(row))
        # torchrun and accelerate take the address from their own options, and only torchrun from PET_*.
        unread = [name for name in _ADDRESS if inner.variable(name) is not None]
        if unread:
            yield fact("plan.address_unread", ", ".join(unread), unread[0])


def _equal_ranks(plan: Plan) -> Iterator[Fact]:
    """A rank that stands in the command as a number, in a command that srun runs on each node."""
    nodes = origin_of(plan, "srun.nodes")
    if nodes is None or not isinstance(nodes.value, int) or nodes.value < 2 or plan.starter != "torchelastic":
        return
    row = origin_of(plan, "node_rank") or origin_of(plan, "machine_rank")
    machines = plan.nnodes[1] if isinstance(plan.nnodes, tuple) else plan.nnodes
    static = plan.tool == "accelerate" or plan.rdzv_backend == "static"
    if plan.node_rank is None or not static or machines is None or machines < 2:
        return
    # A rank that the shell of each task puts in (`bash -c '... $SLURM_NODEID'`) is another one on each node.
    written = _WRITTEN_RANK.search(" ".join(plan.command))
    if written or (row is not None and row.source in ("file", "default")):
        yield fact("plan.same_node_rank", plan.node_rank, *at(row))


def _port(plan: Plan, inner: Request) -> Iterator[Fact]:
    """A fixed port on which somebody listens already, where this machine is the one that opens it."""
    if plan.tool != "torchrun" or plan.rdzv_backend != "static" or plan.node_rank not in (None, 0):
        return
    port = (plan.rdzv_endpoint or "").rpartition(":")[2] or _DEFAULT_PORT
    if port.isdecimal() and len(port) < 6 and int(port) in inner.machine.ports_in_use:
        yield fact("plan.port_taken", int(port), *at(origin_of(plan, "master_port")))


def _rank_missing(plan: Plan) -> Iterator[Fact]:
    if not any(word.partition("=")[0].replace("-", "_") == "__machine_rank" for word in plan.command):
        yield fact("plan.machine_rank_missing", True, "no --machine_rank", place(""))


def _pairs(words: tuple[str, ...], name: str) -> str | None:
    """The word behind the option."""
    return next((words[index + 1] for index, word in enumerate(words[:-1]) if word == name), None)
