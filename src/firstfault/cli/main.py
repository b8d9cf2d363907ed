"""The command line. The only place that turns an error into text and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from firstfault.version import __version__

if TYPE_CHECKING:
    import click

OWN_FAULT = 70
INTERRUPTED = 130
CLOSED_PIPE = 141
NO_ROOM = 2
TRACEBACK_OPTION = "--traceback"
TRACEBACK_VARIABLE = "FIRSTFAULT_TRACEBACK"
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
ISSUES = "the issue tracker of firstfault"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and ends the process with its exit code."""
    # A short run leaves hardly a cycle behind: to look for some after every 700 objects is a twentieth of its time.
    gc.set_threshold(100_000)
    code = run(sys.argv[1:] if arguments is None else arguments)
    # Nor are there any to be found in what the end of the process gives back anyway: an eighth of the time of a short run.
    gc.freeze()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of a command line: see the table in `--help`."""
    arguments, wants_traceback = _without_traceback_option(arguments)
    _open_closed_streams()
    try:
        code = _invoke(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return CLOSED_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _drop_output()
            _say(f"standard output: cannot be written: {error.strerror}")
            return NO_ROOM
        return _report(error, wants_traceback)


def _open_closed_streams() -> None:
    # A service or `<&-` may start a program without them; Python has None there then.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _drop_output() -> None:
    # What is still buffered must not raise a second time when Python closes the stream.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _invoke(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--version"]:
        # Nothing is imported for this.
        print(f"firstfault {__version__}")
        return 0
    if _are_inputs(arguments):
        from firstfault.cli.answer import answer

        return answer(arguments)
    import click

    from firstfault.cli.group import firstfault

    try:
        # Not `firstfault.main`: click would answer a closed pipe and an interrupt in its own way.
        with firstfault.make_context("firstfault", list(arguments)) as context:
            result = firstfault.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.Abort:
        return INTERRUPTED
    except click.ClickException as error:
        _say(_usage(error))
        return error.exit_code
    return result if isinstance(result, int) else 0


def _are_inputs(arguments: Sequence[str]) -> bool:
    """True if nothing but what can be read is named: a parser of options, dear to load, has nothing to do then."""
    from firstfault.cli.commands import COMMANDS

    if not arguments or arguments[0] in COMMANDS:
        return False
    return all(item == "-" or (not item.startswith("-") and os.access(item, os.F_OK)) for item in arguments)


def _usage(error: click.ClickException) -> str:
    import click

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    context = getattr(error, "ctx", None)
    name = context.command_path if context else "firstfault"
    return f"{error.format_message()}\nSee `{name} --help`."


def _report(error: Exception, wants_traceback: bool) -> int:
    """Says what went wrong; a fault of firstfault itself asks for a report."""
    from firstfault.errors import FirstfaultError

    if wants_traceback:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, FirstfaultError):
        place = f"{error.where}: " if error.where else ""
        _say(f"{place}{error.message}" + (f"\n{error.hint}" if error.hint else ""))
        return error.exit_code
    _say(
        f"firstfault {__version__} failed by itself: {type(error).__name__}: {error}\n"
        f"This is a fault of firstfault, not of your run. Please report it to {ISSUES} with the output of the same command "
        f"and {TRACEBACK_OPTION} (or {TRACEBACK_VARIABLE}=1)."
    )
    return OWN_FAULT


def _say(text: str) -> None:
    """Text on standard error, harmless whatever file names are in it."""
    from firstfault.render import safe

    encoding = getattr(sys.stderr, "encoding", None) or "utf-8"
    with suppress(OSError):  # a full disk behind standard error: the exit code still tells
        print(safe.block(text).encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def _without_traceback_option(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The option may stand anywhere before `--`, so that it can be put behind a command that failed."""
    items = list(arguments)
    end = items.index("--") if "--" in items else len(items)
    wanted = TRACEBACK_OPTION in items[:end] or os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0")
    return [item for index, item in enumerate(items) if index >= end or item != TRACEBACK_OPTION], wanted
