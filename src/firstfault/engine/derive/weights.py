"""What the weights are: adapters or all of them, in which dtype, how many bytes, and how many copies a host loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import library_path
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Event
    from firstfault.model.fact import FactSet, Setting

PRODUCES = ("host.load_copies_bytes", "memory.weights_bytes", "train.adapters", "train.weights_dtype")

_COUNTED = "peft.trainable"
_ADAPTER_SHARE = 20.0
_ADAPTER_FRAMES = ("peft/tuners/", "peft/peft_model.py")
_ADAPTERS: dict[str, dict[str, bool]] = {
    "use_peft": {"true": True, "false": False},
    "use_lora": {"true": True, "false": False},
    "adapter": {"lora": True, "qlora": True},
    "finetuning_type": {"lora": True, "full": False},
}
_DTYPES = {"float32": "fp32", "fp32": "fp32", "bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16"}
_WIDTHS = {"fp32": 4, "bf16": 2, "fp16": 2}
_SHARED_LOAD = frozenset({"fsdp_config.fsdp_cpu_ram_efficient_loading", "--fsdp_cpu_ram_efficient_loading"})


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the weights from the count of parameters, the arguments, the configuration and the index of the checkpoint."""
    counted = next((event for event in scope.events() if event.name == _COUNTED), None)
    yield from _kept(facts, _adapters(scope, counted))
    yield from _kept(facts, _dtype(scope, facts))
    yield from _kept(facts, _bytes(scope, facts, counted))
    yield from _kept(facts, _copies(scope, facts))


def _kept(facts: FactSet, fact: Fact | None) -> Iterator[Fact]:
    """The fact, known from here on to the derivations below."""
    if fact is not None:
        facts.add(fact)
        yield fact


def _adapters(scope: Scope, counted: Event | None) -> Fact | None:
    """Few of the parameters are trained: adapters; all of them: none. What lies between may be either."""
    name = "train.adapters"
    share = counted.captures.get("share") if counted is not None else None
    if counted is not None and isinstance(share, int | float) and (share < _ADAPTER_SHARE or share == 100):
        return Fact(name=name, value=share < _ADAPTER_SHARE, origin=f"{share} % are trained", spans=(counted.span,))
    for frame in scope.frames:
        if library_path(frame.path).startswith(_ADAPTER_FRAMES):
            return Fact(name=name, value=True, origin="a frame of PEFT", spans=(frame.span,))
    stated = [
        (_ADAPTERS[one.key][text], one)
        for one in _arguments(scope)
        if one.key in _ADAPTERS and (text := str(one.value).lower()) in _ADAPTERS[one.key]
    ]
    if len({value for value, _ in stated}) != 1:
        return None
    value, setting = stated[0]
    return Fact(name=name, value=value, origin=setting.key, spans=(setting.span,))


def _arguments(scope: Scope) -> Iterator[Setting]:
    return (one for one in scope.settings() if one.family in ("arguments", "config"))


def _dtype(scope: Scope, facts: FactSet) -> Fact | None:
    """The dtype that the arguments ask for. Adapters have one of their own."""
    if facts.value("train.adapters") is True:
        return None
    found = {str(one.value).lower().removeprefix("torch."): one for one in _arguments(scope) if one.key == "torch_dtype"}
    if len(found) != 1:
        return None
    text, setting = next(iter(found.items()))
    dtype = _DTYPES.get(text)
    return None if dtype is None else Fact(name="train.weights_dtype", value=dtype, origin="torch_dtype", spans=(setting.span,))


def _bytes(scope: Scope, facts: FactSet, counted: Event | None) -> Fact | None:
    """Parameters x bytes of the dtype where both are known, else what the index of the checkpoint adds up to."""
    name = "memory.weights_bytes"
    dtype = facts.get("train.weights_dtype")
    width = _WIDTHS.get(str(dtype.value)) if dtype is not None else None
    number = str(counted.captures.get("all", "")).replace(",", "") if counted is not None else ""
    if dtype is not None and width is not None and counted is not None and number.isascii() and number.isdigit():
        origin = f"{number} parameters of {width} bytes"
        return Fact(name=name, value=int(number) * width, origin=origin, spans=(counted.span, *dtype.spans), basis="derived")
    found = [one for one in scope.settings() if (one.family, one.key) == ("printed", "weights_bytes")]
    if len({one.value for one in found}) != 1 or not isinstance(found[0].value, int):
        return None
    return Fact(name=name, value=found[0].value, origin="total_size of the index", spans=(found[0].span,))


def _copies(scope: Scope, facts: FactSet) -> Fact | None:
    """Processes of one host x bytes of the weights; nothing to speak of where one rank loads for all.

    ZeRO-3 may take the weights apart while they are loaded: then the product says nothing.
    """
    name = "host.load_copies_bytes"
    shared = [one for one in scope.settings() if one.key in _SHARED_LOAD]
    if shared and all(str(one.value).lower() == "true" for one in shared):
        return Fact(name=name, value=0, origin="one rank loads for all", spans=(shared[0].span,))
    processes, weights = facts.get("launch.processes"), facts.get("memory.weights_bytes")
    if processes is None or weights is None or facts.value("run.zero_stage") == 3:
        return None
    if not isinstance(processes.value, int) or not isinstance(weights.value, int):
        return None
    origin = f"{processes.value} processes x {weights.value} bytes of weights"
    spans = (*processes.spans, *weights.spans)
    told = "told" in {processes.basis, weights.basis}
    return Fact(
        name=name, value=processes.value * weights.value, origin=origin, spans=spans, basis="told" if told else "derived"
    )
