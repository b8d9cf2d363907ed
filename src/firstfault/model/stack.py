"""What a process was doing at one moment: the stacks of its threads, by whatever tool took them."""

from __future__ import annotations

from typing import Literal

import msgspec

from firstfault.model.event import Frame, Place
from firstfault.model.span import SourceSpan

StackTool = Literal["py-spy", "faulthandler", "pystack", "watchdog"]
"""`watchdog`: the stack on which torch's NCCL watchdog says that the stuck collective was called."""


class ThreadStack(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of one thread, outermost first. `state` is idle, active, or empty where the tool does not say."""

    name: str = ""
    state: str = ""
    holds_gil: bool = False
    frames: tuple[Frame, ...] = ()
    span: SourceSpan


class ProcessStack(msgspec.Struct, frozen=True, kw_only=True):
    """The threads of one process at one moment. `main` is the thread that runs the script; None if it was not printed.

    `parent_pid` is set where the tool prints it. `command` is the command line, if printed. `crashed` is true for stacks that
    Python printed because the process died of a signal.
    """

    tool: StackTool
    place: Place
    main: ThreadStack | None
    threads: tuple[ThreadStack, ...] = ()
    command: str = ""
    parent_pid: int | None = None
    crashed: bool = False
    source_id: str = ""
    span: SourceSpan
