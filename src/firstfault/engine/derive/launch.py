"""What the launch starts, and whether nn.DataParallel drives several GPUs from one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import library_path
from firstfault.engine.derive.trained import devices_trained
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.fact import FactSet, Setting

PRODUCES = (
    "launch.command",
    "launch.distributed_type_meant",
    "trainer.n_gpu",
    "trainer.uses_dataparallel",
    "script.dataparallel",
    "script.retain_graph",
)
_MAX_COMMAND = 2000


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the launch plan, the machine and nn.DataParallel."""
    yield from _command(scope)
    yield from _meant(facts)
    settings = tuple(scope.settings())
    for fact in _planned(scope, settings) if settings else ():
        facts.add(fact)
        yield fact
    for fact in _driven(settings, facts):
        facts.add(fact)
        yield fact
    for fact in (*_script(scope), *_dataparallel(scope, facts)):
        facts.add(fact)
        yield fact


def _planned(scope: Scope, settings: Sequence[Setting]) -> tuple[Fact, ...]:
    from firstfault.launch.machine import machine_facts
    from firstfault.launch.processes import plan_facts

    return (*plan_facts(settings, at=scope.event.span if scope.event else None), *machine_facts(settings))


def _meant(facts: FactSet) -> Iterator[Fact]:
    """The distributed type that the refused one is near."""
    refused = facts.get("launch.refused_type")
    if refused is None:
        return
    from firstfault.launch.spelling import distributed_type_meant

    meant = distributed_type_meant(str(refused.value))
    if meant is not None:
        yield Fact(name="launch.distributed_type_meant", value=meant, origin="nearest known type", spans=refused.spans)


def _driven(settings: Sequence[Setting], facts: FactSet) -> Iterator[Fact]:
    """The GPUs of the one process that the launch starts, by the batch that its Trainer prints."""
    trained = devices_trained(settings) if facts.value("launch.processes") == 1 else None
    if trained is not None and facts.value("launch.nodes_asked") in (None, 1):
        origin = "total batch over the batch of a device"
        yield Fact(name="trainer.n_gpu", value=trained.devices, origin=origin, spans=trained.spans, basis="derived")


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
    called = facts.get("script.dataparallel")
    # With one device the wrapper does nothing.
    if called is not None and called.value is True and facts.value("launch.visible_gpus") != 1:
        yield Fact(name=name, value=True, origin=called.origin, spans=called.spans, basis=called.basis)
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
    # Several ranks of one world: each process has a LOCAL_RANK, and with one nothing is wrapped in nn.DataParallel unasked.
    ranks = scope.aligned.ranks
    if len(ranks) > 1 and facts.value("launch.world_size_seen") != 1:
        spans = tuple(filter(None, {sample.rank: sample.last_span for sample in scope.aligned.progress}.values()))[:2]
        yield Fact(name=name, value=False, origin=f"{len(ranks)} ranks of one run", spans=spans, basis="derived")
        return
    # A whole traceback that fails inside the forward pass would hold the wrapper's frames.
    if scope.whole and any(frame.function == "forward" for frame in scope.frames):
        spans = (scope.frames[-1].span,)
        yield Fact(
            name=name, value=False, origin="no frame of nn.DataParallel in the forward pass", spans=spans, basis="derived"
        )
