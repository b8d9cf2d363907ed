"""The options of the `deepspeed` command (launcher/runner.py of DeepSpeed 0.18.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from firstfault.launch.flag_table import Flag

DEFAULT_HOSTFILE = "/job/hostfile"
DEFAULT_PORT = 29500

_SWITCHES = (
    ("--module",), ("--no_python",), ("--no_local_rank",), ("--no_ssh",), ("--no_ssh_check",), ("--force_multi",),
    ("--save_pid",), ("--elastic_training",), ("--bind_cores_to_rank",), ("-q", "--quiet"),
)  # fmt: skip
_OPTIONS = (
    Flag(names=("-H", "--hostfile"), kind="text", default=DEFAULT_HOSTFILE),
    Flag(names=("-i", "--include"), kind="text", default=""),
    Flag(names=("-e", "--exclude"), kind="text", default=""),
    Flag(names=("--master_addr",), kind="text", default=""),
    Flag(names=("--launcher",), kind="text", default="pdsh"),
    Flag(names=("--launcher_args",), kind="text", default=""),
    Flag(names=("--enable_each_rank_log",), kind="text", default="None"),
    Flag(names=("--bind_core_list",), kind="text"),
    Flag(names=("--venv_script",), kind="text"),
    Flag(names=("--num_nodes",), kind="int", default=-1),
    Flag(names=("--min_elastic_nodes",), kind="int", default=-1),
    Flag(names=("--max_elastic_nodes",), kind="int", default=-1),
    Flag(names=("--num_gpus", "--num_accelerators"), kind="int", default=-1),
    Flag(names=("--master_port",), kind="int", default=DEFAULT_PORT),
    Flag(names=("--node_rank",), kind="int", default=-1),
    Flag(names=("--ssh_port",), kind="int"),
    *(Flag(names=names, kind="on") for names in _SWITCHES),
    Flag(names=("--autotuning",), kind="text", default="", choices=("tune", "run")),
    Flag(names=("--log_level",), kind="text", default="info", choices=("debug", "info", "warning", "error", "critical")),
)


def tried_values(option: str) -> tuple[str, ...] | None:
    """Values that stand for all of an option whose value is not known; None for one that takes none."""
    if option in ("-i", "--include", "-e", "--exclude"):
        return ("",)
    if any(option in names for names in _SWITCHES):
        return None
    return ("1", "2", "4") if option in ("--num_gpus", "--num_accelerators", "--num_nodes", "--node_rank") else ()


def read_deepspeed(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values by name and the spelling of each option that was given; raises `Stop` for what argparse refuses."""
    from firstfault.launch.flag_parser import parse

    read = parse(words, _OPTIONS, prog="deepspeed", script=("user_script", "user_args"))
    values = {name: given.value for name, given in read.given.items()}
    return values, {name: read.given[name].where for name in read.named}
