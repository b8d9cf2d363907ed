"""The options of `torchrun`, and its arguments as flags, PET_* variables and defaults give them (torch/distributed/run.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from firstfault.launch.flag_table import Flag
from firstfault.launch.request import Request
from firstfault.launch.stop import stop
from firstfault.launch.values import Given, settle

_FLAG_ONLY = ("logs_specs", "numa_binding", "use_env")
"""Options without a PET_* variable."""


def _both(name: str, *short: str) -> tuple[str, ...]:
    """Short spellings first, then with hyphens and with underscores, as torch declares them."""
    hyphens = "--" + name.replace("_", "-")
    return (*short, hyphens) if "_" not in name else (*short, hyphens, f"--{name}")


OPTIONS = (
    Flag(names=_both("nnodes"), default="1:1", kind="text"),
    Flag(names=_both("nproc_per_node"), default="1", kind="text"),
    Flag(names=_both("rdzv_backend"), default="static", kind="text"),
    Flag(names=_both("rdzv_endpoint"), default="", kind="text"),
    Flag(names=_both("rdzv_id"), default="none", kind="text"),
    Flag(names=_both("rdzv_conf"), default="", kind="text"),
    Flag(names=_both("standalone"), kind="on"),
    Flag(names=_both("max_restarts"), default=0, kind="int"),
    Flag(names=_both("monitor_interval"), default=0.1, kind="float"),
    Flag(names=_both("start_method"), default="spawn", choices=("spawn", "fork", "forkserver"), kind="text"),
    Flag(names=_both("event_log_handler"), default="null", kind="text"),
    Flag(names=_both("role"), default="default", kind="text"),
    Flag(names=_both("module", "-m"), kind="on"),
    Flag(names=_both("no_python"), kind="on"),
    Flag(names=_both("run_path"), kind="on"),
    Flag(names=_both("log_dir"), kind="text"),
    Flag(names=_both("redirects", "-r"), default="0", kind="text"),
    Flag(names=_both("tee", "-t"), default="0", kind="text"),
    Flag(names=_both("local_ranks_filter"), default="", kind="text"),
    Flag(names=_both("duplicate_stdout_filters"), default=[], kind="list"),
    Flag(names=_both("duplicate_stderr_filters"), default=[], kind="list"),
    Flag(names=_both("node_rank"), default=0, kind="int"),
    Flag(names=_both("master_addr"), default="127.0.0.1", kind="text"),
    Flag(names=_both("master_port"), kind="int"),
    Flag(names=_both("local_addr"), kind="text"),
    Flag(names=_both("logs_specs"), kind="text"),
    Flag(names=_both("numa_binding"), kind="text", choices=("node", "socket", "exclusive", "core-complex")),
    Flag(names=_both("signals_to_handle"), default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", kind="text"),
    Flag(names=_both("shutdown_timeout"), kind="int"),
    Flag(names=_both("virtual_local_rank"), kind="on"),
    Flag(names=_both("use_env"), kind="on"),
)


class Arguments(msgspec.Struct, frozen=True):
    """The arguments by name, and for each what decided it."""

    values: dict[str, Any]
    origins: dict[str, Given]


def read_arguments(words: Sequence[str], request: Request, *, prog: str = "torchrun", legacy: bool = False) -> Arguments:
    """What argparse makes of the words behind `torchrun`; raises `Stop` for what it refuses.

    Any unambiguous beginning of a long option is that option; the first word that is no option is the script, and
    everything behind it belongs to the script. `legacy` has the option that torch.distributed.launch alone has.
    """
    from firstfault.launch.flag_parser import parse

    options = [_declared(option, request) for option in OPTIONS if legacy or option.name != "use_env"]
    read = parse(words, options, prog=prog)
    origins = {option.name: _origin(option, read.given[option.name], request) for option in options}
    return Arguments({name: given.value for name, given in read.given.items()}, origins)


def default_arguments(request: Request, *, prog: str = "torchrun") -> dict[str, Any]:
    """The arguments of a bare `torchrun`, PET_* variables read; raises `Stop` where torch stops at such a variable."""
    if any(name.startswith("PET_") for name in request.environment):
        return read_arguments(("",), request, prog=prog).values
    options = (option for option in OPTIONS if option.name != "use_env")
    values = {option.name: bool(option.default) if option.kind == "on" else option.default for option in options}
    return {**values, "training_script": "", "training_script_args": []}


def takes_value(option: str) -> tuple[str, ...] | None:
    """Empty for an option, or the unambiguous beginning of one, that takes a value; None for a switch."""
    found = [one for one in OPTIONS if option in one.names]
    found = found or [one for one in OPTIONS if any(name.startswith(option) for name in one.names)]
    return None if found and found[0].kind == "on" else ()


def _declared(option: Flag, request: Request) -> Flag:
    """The option with the default that its variable gives it."""
    variable = request.variable(f"PET_{option.name.upper()}") if option.name not in _FLAG_ONLY else None
    if variable is None:
        return option
    return msgspec.structs.replace(option, default=_switch(variable) if option.kind == "on" else variable)


def _switch(variable: str) -> bool:
    """PET_STANDALONE=1 is a number to torch: `true` or an empty text stops it."""
    try:
        return bool(int(variable))
    except ValueError as error:
        raise stop("ValueError", str(error)) from error


def _origin(option: Flag, found: Given, request: Request) -> Given:
    name = f"PET_{option.name.upper()}"
    given = request.environment.get(name) if option.name not in _FLAG_ONLY else None
    flag = found if found.source == "flag" else None
    variable = Given(found.value if flag is None else given.value, "variable", name) if given else None
    default = Given(found.value, "default", f"default of {option.names[-1]}")
    return settle([flag, variable, default]) or default
