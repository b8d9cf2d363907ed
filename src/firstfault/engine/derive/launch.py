"""What the launch starts, held against what was asked for and what the run shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import library_path
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "launch.command",
    "trainer.n_gpu",
    "trainer.uses_dataparallel",
    "script.dataparallel",
    "script.retain_graph",
    "plan.finding",
)
_MAX_COMMAND = 2000


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the launch plan, of nn.DataParallel, and whether the plan differs from what was asked for."""
    yield from _command(scope)
    from firstfault.launch.processes import plan_facts

    for fact in plan_facts(tuple(scope.settings()), at=scope.event.span if scope.event else None):
        facts.add(fact)
        yield fact
    for fact in (*_script(scope), *_dataparallel(scope, facts)):
        facts.add(fact)
        yield fact
    yield from _finding(facts)


def _command(scope: Scope) -> Iterator[Fact]:
    for setting in scope.settings():
        if setting.family == "command" and setting.key in {"launcher", "script"}:
            text = _command_text(setting.text)
            if text:
                yield Fact(name="launch.command", value=text[:_MAX_COMMAND], origin="launch command", spans=(setting.span,))
                return


def _command_text(text: str) -> str:
    """The command alone: without a prompt, a comment, a redirection or what it is piped into."""
    command = text.strip()
    for prompt in ("$ ", "> ", "% "):
        command = command.removeprefix(prompt)
    quote = ""
    for index, char in enumerate(command):
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "|<>;&" or (char == "#" and command[index - 1 : index].isspace()):
            end = index - 1 if char in "<>" and command[index - 2 : index] in {" 1", " 2"} else index
            return command[:end].rstrip(" \\")
    return command.rstrip(" \\")


def _script(scope: Scope) -> Iterator[Fact]:
    # The user's own source lines stand in the traceback: what they say of the script is certain, what they lack is not.
    for frame in scope.frames:
        if "site-packages" in frame.path or "dist-packages" in frame.path:
            continue
        if "DataParallel(" in frame.code and "DistributedDataParallel(" not in frame.code:
            yield Fact(name="script.dataparallel", value=True, origin="source line of a frame", spans=(frame.span,))
        if ".backward(" in frame.code and "retain_graph=True" in frame.code:
            yield Fact(name="script.retain_graph", value=True, origin="source line of a frame", spans=(frame.span,))


def _dataparallel(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    name = "trainer.uses_dataparallel"
    for frame in scope.frames:
        if library_path(frame.path).startswith(("torch/nn/parallel/data_parallel.py", "torch/nn/parallel/scatter_gather.py")):
            yield Fact(name=name, value=True, origin="frames of nn.DataParallel", spans=(frame.span,))
            return
    n_gpu = facts.get("trainer.n_gpu")
    if n_gpu is not None and isinstance(n_gpu.value, int) and facts.value("run.framework") == "transformers":
        # More than one GPU in one process is what makes the Trainer wrap the model; other loops do no such thing by themselves.
        yield Fact(
            name=name,
            value=n_gpu.value > 1,
            origin="trainer.n_gpu",
            spans=n_gpu.spans,
            basis="told" if n_gpu.basis == "told" else "derived",
        )
        return
    # A whole traceback that fails inside the forward pass would hold the wrapper's frames.
    if scope.whole and any(frame.function == "forward" for frame in scope.frames):
        spans = (scope.frames[-1].span,)
        yield Fact(
            name=name, value=False, origin="no frame of nn.DataParallel in the forward pass", spans=spans, basis="derived"
        )


def _finding(facts: FactSet) -> Iterator[Fact]:
    """True where processes or devices are known to differ from what was asked for."""
    differences = (
        _less(facts, "launch.processes", "launch.processes_asked"),
        _less(facts, "launch.world_size_seen", "launch.processes_asked"),
        _implicit_dataparallel(facts),
    )
    for difference in differences:
        if difference is not None:
            origin, spans, told = difference
            yield Fact(name="plan.finding", value=True, origin=origin, spans=spans, basis="told" if told else "derived")
            return


_Difference = tuple[str, "tuple[SourceSpan, ...]", bool]


def _less(facts: FactSet, started: str, asked: str) -> _Difference | None:
    a, b = facts.get(started), facts.get(asked)
    if a is None or b is None or not isinstance(a.value, int) or not isinstance(b.value, int) or a.value >= b.value:
        return None
    return f"{started} {a.value} of {asked} {b.value}", (*b.spans, *a.spans), "told" in {a.basis, b.basis}


def _implicit_dataparallel(facts: FactSet) -> _Difference | None:
    uses, processes = facts.get("trainer.uses_dataparallel"), facts.get("launch.processes")
    if uses is None or uses.value is not True or facts.value("script.dataparallel") is True:
        return None
    n_gpu = facts.get("trainer.n_gpu")
    asked = facts.value("launch.processes_asked")
    if processes is None or processes.value != 1 or (asked != 1 and n_gpu is None):
        return None
    return "one process drives several GPUs", (*uses.spans, *processes.spans), "told" in {uses.basis, processes.basis}
