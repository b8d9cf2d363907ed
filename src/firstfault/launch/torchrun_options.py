"""The options of `torchrun`, and its arguments as flags, PET_* variables and defaults give them (torch/distributed/run.py)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from firstfault.launch.request import Request
from firstfault.launch.usage import Parser, Take, decimal, stop, whole
from firstfault.launch.values import Given, settle

Kind = Literal["variable", "switch", "plain", "legacy"]


class Option(msgspec.Struct, frozen=True):
    """One option: its spellings, how it is given besides the flag, its default, its type and its choices.

    `variable`: PET_<NAME> is read; `switch`: the same, without a value; `plain`: flag only; `legacy`: only in
    torch.distributed.launch. `since` is the first torch that has it, where that could be established.
    """

    names: tuple[str, ...]
    kind: Kind = "variable"
    default: Any = None
    type: Callable[[str], Any] = str
    choices: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The attribute that argparse derives: the first long spelling."""
        return next(name for name in self.names if name.startswith("--"))[2:].replace("-", "_")


def _filters(text: str) -> list[str]:
    """A list with commas; a doubled comma stands for one."""
    return [item.replace("\0", ",") for item in text.replace(",,", "\0").split(",")]


def _both(name: str, *short: str) -> tuple[str, ...]:
    """Short spellings first, then with hyphens and with underscores, as torch declares them."""
    hyphens = "--" + name.replace("_", "-")
    return (*short, hyphens) if "_" not in name else (*short, hyphens, f"--{name}")


OPTIONS = (
    Option(_both("nnodes"), default="1:1"),
    Option(_both("nproc_per_node"), default="1"),
    Option(_both("rdzv_backend"), default="static"),
    Option(_both("rdzv_endpoint"), default=""),
    Option(_both("rdzv_id"), default="none"),
    Option(_both("rdzv_conf"), default=""),
    Option(_both("standalone"), kind="switch"),
    Option(_both("max_restarts"), default=0, type=whole),
    Option(_both("monitor_interval"), default=0.1, type=decimal),
    Option(_both("start_method"), default="spawn", choices=("spawn", "fork", "forkserver")),
    Option(_both("event_log_handler"), default="null"),
    Option(_both("role"), default="default"),
    Option(_both("module", "-m"), kind="switch"),
    Option(_both("no_python"), kind="switch"),
    Option(_both("run_path"), kind="switch"),
    Option(_both("log_dir")),
    Option(_both("redirects", "-r"), default="0"),
    Option(_both("tee", "-t"), default="0"),
    Option(_both("local_ranks_filter"), default=""),
    Option(_both("duplicate_stdout_filters"), default=[], type=_filters),
    Option(_both("duplicate_stderr_filters"), default=[], type=_filters),
    Option(_both("node_rank"), default=0, type=whole),
    Option(_both("master_addr"), default="127.0.0.1"),
    Option(_both("master_port"), type=whole),
    Option(_both("local_addr")),
    Option(_both("logs_specs"), kind="plain"),
    Option(_both("numa_binding"), kind="plain", choices=("node", "socket", "exclusive", "core-complex")),
    Option(_both("signals_to_handle"), default="SIGTERM,SIGINT,SIGHUP,SIGQUIT"),
    Option(_both("shutdown_timeout"), type=whole),
    Option(_both("virtual_local_rank"), kind="switch"),
    Option(_both("use_env"), kind="legacy"),
)


class Arguments(msgspec.Struct, frozen=True):
    """The arguments by name, and for each what decided it."""

    values: dict[str, Any]
    origins: dict[str, Given]


def read_arguments(words: Sequence[str], request: Request, *, prog: str = "torchrun", legacy: bool = False) -> Arguments:
    """What argparse makes of the words behind `torchrun`; raises `Stop` for what it refuses.

    Any unambiguous beginning of a long option is that option; the first word that is no option is the script, and
    everything behind it belongs to the script.
    """
    parser = Parser(prog)
    options = [option for option in OPTIONS if legacy or option.kind != "legacy"]
    for option in options:
        _declare(parser, option, request)
    parser.add_argument("training_script", type=str)
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER)
    values = vars(parser.parse_args(list(words)))
    origins = {option.name: _origin(option, values[option.name], parser.taken, request) for option in options}
    return Arguments(values, origins)


def takes_value(option: str) -> tuple[str, ...] | None:
    """Empty for an option, or the unambiguous beginning of one, that takes a value; None for a switch."""
    found = [one for one in OPTIONS if option in one.names]
    found = found or [one for one in OPTIONS if any(name.startswith(option) for name in one.names)]
    return None if found and found[0].kind in ("switch", "legacy") else ()


def _declare(parser: Parser, option: Option, request: Request) -> None:
    default = option.default
    variable = request.variable(f"PET_{option.name.upper()}") if option.kind in ("variable", "switch") else None
    if option.kind in ("switch", "legacy"):
        parser.add_argument(*option.names, action=Take, nargs=0, default=_switch(variable))
        return
    if variable is not None:
        default = variable
    parser.add_argument(*option.names, action=Take, type=option.type, default=default, choices=option.choices)


def _switch(variable: str | None) -> bool:
    """PET_STANDALONE=1 is a number to torch: `true` or an empty text stops it."""
    try:
        return bool(int(variable or ("0" if variable is None else "")))
    except ValueError as error:
        raise stop("ValueError", str(error)) from error


def _origin(option: Option, value: object, taken: dict[str, str], request: Request) -> Given:
    name = f"PET_{option.name.upper()}"
    given = request.environment.get(name) if option.kind in ("variable", "switch") else None
    variable = Given(value if option.name not in taken else given.value, "variable", name) if given else None
    flag = Given(value, "flag", taken[option.name]) if option.name in taken else None
    found = settle([flag, variable, Given(value, "default", f"default of {option.names[-1]}")])
    return found if found is not None else Given(value, "default", "")
