"""The workers of torchelastic on this machine, each with the variables that the agent gives it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firstfault.launch.expansion import holds_unknown
from firstfault.launch.visible import visible_devices
from firstfault.model.plan import Plan, PlannedError, Process

MAX_PROCESSES = 1_024
DRAWN = "*"
"""Stands for what is drawn anew at each start, and for what only the meeting of the nodes decides."""


def elastic_processes(plan: Plan, environment: Mapping[str, str], gpus: int | None) -> tuple[Process, ...]:
    """The workers as the agent of torch 2.13 starts them (local_elastic_agent.py); none while their number is not known.

    `environment` is what the agent itself sees. Only the first `MAX_PROCESSES` are listed.
    """
    count = plan.nproc_per_node or 0
    return tuple(elastic_process(plan, environment, gpus, local) for local in range(min(count, MAX_PROCESSES)))


def elastic_process(plan: Plan, environment: Mapping[str, str], gpus: int | None, local: int) -> Process:
    """One worker by its number on the machine."""
    config: Mapping[str, Any] = (plan.spawn.config if plan.spawn else None) or {}
    group = _group_rank(plan)
    per_node = plan.nproc_per_node
    rank = None if group is None or per_node is None else group * per_node + local
    env = _variables(plan, config, group, local, rank)
    for name in ("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"):
        if name in environment:
            env[name] = environment[name]
    env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = environment.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    signals = environment.get("PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
    # The settings that torchelastic records do not hold the option: that it was given leaves the value open.
    env["TORCHELASTIC_SIGNALS_TO_HANDLE"] = DRAWN if any(word.startswith("--signals") for word in plan.command) else signals
    shared = plan.rdzv_backend == "static" or environment.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"
    env["TORCHELASTIC_USE_AGENT_STORE"] = str(shared)
    if config.get("virtual_local_rank"):
        env["LOCAL_RANK"] = "0"
        env["CUDA_VISIBLE_DEVICES"] = _own_gpu(environment.get("CUDA_VISIBLE_DEVICES"), local)
    return Process(
        rank=rank,
        local_rank=0 if config.get("virtual_local_rank") else local,
        visible=visible_devices(env.get("CUDA_VISIBLE_DEVICES"), gpus),
        env=dict(sorted(env.items())),
    )


def virtual_rank_error(plan: Plan, environment: Mapping[str, str]) -> PlannedError | None:
    """How the agent stops when `--virtual_local_rank` finds fewer ids in CUDA_VISIBLE_DEVICES than there are workers."""
    config: Mapping[str, Any] = (plan.spawn.config if plan.spawn else None) or {}
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if not config.get("virtual_local_rank") or listed is None or holds_unknown(listed):
        return None
    available = len(listed.split(","))
    if (plan.nproc_per_node or 0) <= available:
        return None
    message = f"local_rank {available} exceeds available GPUs in CUDA_VISIBLE_DEVICES={listed}"
    return PlannedError(type="ValueError", message=message)


def _group_rank(plan: Plan) -> int | None:
    """The node's number: given, or 0 where there is one node; c10d decides it when several nodes meet."""
    if plan.rdzv_backend == "static":
        return plan.node_rank
    return 0 if plan.nnodes == 1 else None


def _variables(plan: Plan, config: Mapping[str, Any], group: int | None, local: int, rank: int | None) -> dict[str, str]:
    nodes = plan.nnodes[1] if isinstance(plan.nnodes, tuple) else plan.nnodes
    world = _text(plan.world_size)
    address, port = DRAWN, DRAWN
    if plan.rdzv_backend == "static" and plan.rdzv_endpoint:
        address, _, port = plan.rdzv_endpoint.rpartition(":")
    elif config.get("local_addr") is not None and plan.nnodes == 1:
        address = str(config["local_addr"])
    run_id = str(config.get("run_id"))
    return {
        "RANK": _text(rank),
        "GROUP_RANK": _text(group),
        "ROLE_RANK": _text(rank),
        "ROLE_NAME": str(config.get("role")),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": _text(plan.nproc_per_node),
        "WORLD_SIZE": world,
        "GROUP_WORLD_SIZE": _text(nodes),
        "ROLE_WORLD_SIZE": world,
        "MASTER_ADDR": address.strip("[]"),
        "MASTER_PORT": port,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": str(config.get("max_restarts")),
        "TORCHELASTIC_RUN_ID": DRAWN if run_id == "<uuid>" else run_id,
    }


def _text(number: int | None) -> str:
    return DRAWN if number is None else str(number)


def _own_gpu(listed: str | None, local: int) -> str:
    ids = [str(local)] if listed is None else listed.split(",")
    index = 0 if listed is None else local
    return ids[index].strip() if index < len(ids) else ""
