"""The options of the `deepspeed` command (launcher/runner.py of DeepSpeed 0.18.2)."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from firstfault.launch.usage import Parser, Take, whole

DEFAULT_HOSTFILE = "/job/hostfile"
DEFAULT_PORT = 29500

_TEXT: dict[tuple[str, ...], str | None] = {
    ("-H", "--hostfile"): DEFAULT_HOSTFILE,
    ("-i", "--include"): "",
    ("-e", "--exclude"): "",
    ("--master_addr",): "",
    ("--launcher",): "pdsh",
    ("--launcher_args",): "",
    ("--enable_each_rank_log",): "None",
    ("--bind_core_list",): None,
    ("--venv_script",): None,
}
_NUMBERS: dict[tuple[str, ...], int | None] = {
    ("--num_nodes",): -1,
    ("--min_elastic_nodes",): -1,
    ("--max_elastic_nodes",): -1,
    ("--num_gpus", "--num_accelerators"): -1,
    ("--master_port",): DEFAULT_PORT,
    ("--node_rank",): -1,
    ("--ssh_port",): None,
}
_SWITCHES = (
    ("--module",), ("--no_python",), ("--no_local_rank",), ("--no_ssh",), ("--no_ssh_check",), ("--force_multi",),
    ("--save_pid",), ("--elastic_training",), ("--bind_cores_to_rank",), ("-q", "--quiet"),
)  # fmt: skip


def tried_values(option: str) -> tuple[str, ...] | None:
    """Values that stand for all of an option whose value is not known; None for one that takes none."""
    if option in ("-i", "--include", "-e", "--exclude"):
        return ("",)
    if any(option in names for names in _SWITCHES):
        return None
    return ("1", "2", "4") if option in ("--num_gpus", "--num_accelerators", "--num_nodes", "--node_rank") else ()


def read_deepspeed(words: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The values by name and the spelling of each option that was given; raises `Stop` for what argparse refuses."""
    parser = Parser("deepspeed")
    for names, text in _TEXT.items():
        parser.add_argument(*names, action=Take, type=str, default=text)
    for names, number in _NUMBERS.items():
        parser.add_argument(*names, action=Take, type=whole, default=number)
    for names in _SWITCHES:
        parser.add_argument(*names, action=Take, nargs=0, default=False)
    parser.add_argument("--autotuning", action=Take, default="", choices=["tune", "run"], type=str)
    levels = ["debug", "info", "warning", "error", "critical"]
    parser.add_argument("--log_level", action=Take, default="info", choices=levels, type=str)
    parser.add_argument("user_script", type=str)
    parser.add_argument("user_args", nargs=argparse.REMAINDER)
    values = vars(parser.parse_args(list(words)))
    return values, parser.taken
