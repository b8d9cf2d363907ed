"""The commands and how they are found: a module is imported when its command runs, and no command means `diagnose`."""

from __future__ import annotations

import os
from importlib import import_module

import click

from firstfault.cli.commands import COMMANDS, DEFAULT
from firstfault.errors import UsageError
from firstfault.version import __version__

_OWN_OPTIONS = frozenset({"--help", "-h", "--version"})


class LazyGroup(click.Group):
    """Imports `firstfault.cli.<command>` on use; words that are no command are inputs of `diagnose`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"firstfault.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Puts `diagnose` in front of inputs and of its options."""
        if args and args[0] not in COMMANDS and args[0] not in _OWN_OPTIONS:
            _refuse_mistyped_command(args[0])
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def all_options() -> frozenset[str]:
    """Every option of every command, for the lint of texts that name options."""
    options: set[str] = {"--version", "--help", "--traceback"}
    context = click.Context(firstfault)
    waiting = [firstfault.get_command(context, name) for name in COMMANDS]
    while waiting:
        command = waiting.pop()
        if command is None:
            continue
        options.update(name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts))
        if isinstance(command, click.Group):
            waiting += list(command.commands.values())
    return frozenset(option for option in options if option.startswith("-"))


def _refuse_mistyped_command(word: str) -> None:
    """A first word that is no file but nearly a command is a slip of the keyboard, not an unreadable input."""
    if not word.isidentifier() or os.access(word, os.F_OK):
        return
    from difflib import get_close_matches

    near = get_close_matches(word, COMMANDS, n=1, cutoff=0.7)
    if near:
        raise UsageError(f"neither a file nor a command is called {word}", hint=f"Did you mean `firstfault {near[0]}`?")


def _print_version(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"firstfault {__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="[COMMAND] [INPUT]...",
    epilog="Exit codes: 0 no failure, 1 a failure was diagnosed, 2 usage, 3 undetermined (a fact is missing), "
    "4 unreadable input, 70 a fault of firstfault itself (add --traceback to see it).",
)
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show the version.")
def firstfault() -> None:
    """Find the first fault of a failed training run.

    \b
    firstfault run.log                 a log
    firstfault logs/ config.yaml       folders, configs and commands too
    kubectl logs job/train | firstfault -

    Everything is read on this machine, and nothing leaves it.
    """
