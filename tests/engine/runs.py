"""Short ways to build what the later steps of the engine read: frames, a run with one failure, what is known of it."""

from __future__ import annotations

import msgspec

from engine.faults import LINE_BYTES, Log, causal, world
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import derive
from firstfault.engine.derive.scope import Scope
from firstfault.engine.lookup import Known
from firstfault.knowledge.schema import Condition, Entry, EntryBody, FactSpec, Pack
from firstfault.model.event import ExceptionBlock, Frame, Traceback
from firstfault.model.fact import Fact, FactSet
from firstfault.model.span import SourceSpan

SITE = "/opt/venv/lib/python3.11/site-packages/"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def frame(path: str, function: str, code: str = "") -> tuple[str, str, str]:
    return (path, function, code)


def lib(path: str, function: str, code: str = "") -> tuple[str, str, str]:
    return (SITE + path, function, code)


CALL = lib("torch/nn/modules/module.py", "_call_impl", "return forward_call(*args, **kwargs)")
MAIN = frame("train.py", "main", "trainer.train()")


def crash(
    *frames, error=OOM, fault_class="device_oom", rank=None, whole=True, cut_after=False, above=3, name="torch.oom", **captures
):
    """A log with `above` lines, then a traceback of `frames` (outermost first) that ends in `error`."""
    log = Log("run.log" if rank is None else f"rank-{rank}.log", rank=rank).steps(above)
    made = []
    for path, function, code in frames:
        log.lines += 2
        line = log.lines - 1
        made.append(Frame(path, 10, function, code, SourceSpan(log.path, line, line * LINE_BYTES)))
    if cut_after:
        log.lines += 40
    log.fault(fault_class, error, name=name, **captures)
    event = log.events[-1]
    kind, _, message = error.partition(": ")
    block = ExceptionBlock(
        type=kind, message=message, frames=tuple(made), span=event.span, end_offset=event.span.offset + 90, whole=whole
    )
    log.tracebacks.append(Traceback(blocks=(block,), place=event.place, source_id=log.path))
    log.events[-1] = msgspec.structs.replace(event, traceback=len(log.tracebacks) - 1)
    return log


def scope_of(*logs, size=None, pack=None):
    pack = pack or pack_of()
    found = align(world(size, *logs))
    return Scope(found, attribute(found, pack.causal), pack)


def facts_of(*logs, size=None, pack=None):
    """All facts that are derived of these logs."""
    pack = pack or pack_of()
    found = align(world(size, *logs))
    return derive(found, attribute(found, pack.causal), pack)


def known_of(*logs, size=None, pack=None, facts=()):
    """What is known of these logs, with `facts` answered."""
    pack = pack or pack_of()
    found = align(world(size, *logs))
    attribution = attribute(found, pack.causal)
    return Known(derive(found, attribution, pack, facts), found, attribution, pack), attribution


def told(name, value, basis="read", line=1):
    return Fact(name=name, value=value, origin="test", spans=(SourceSpan("run.log", line, line * LINE_BYTES),), basis=basis)


class Stated:
    """A `Known` made of facts alone."""

    def __init__(self, pack, *facts):
        self.pack = pack
        self.facts = FactSet({fact.name: fact for fact in facts})

    def value(self, name):
        return self.facts.value(name)

    def rounded(self, name):
        return False

    def fact(self, name):
        return self.facts.get(name)

    def event(self, name):
        return None

    def span(self, name):
        fact = self.facts.get(name)
        return fact.spans[0] if fact else None

    @property
    def read_only(self):
        return Stated(self.pack, *(fact for fact in self.facts.values() if fact.basis != "told"))


def spec(name, kind="bool", cost="seconds", values=(), producer="test", obtain="look at {log}"):
    return FactSpec(
        name=name,
        type=kind,
        says=f"what {name} says",
        ask=f"What of {name}?",
        obtain=obtain,
        cost=cost,
        values=values,
        producer=producer,
    )


def when(text, says="", weight=1, decisive=False, veto=False):
    return Condition(if_=text, says=says, weight=weight, decisive=decisive, veto=veto)


def entry(id, requires, refines=None, evidence=(), against=(), fallback=False, also_under=(), **more):
    return Entry(
        id=id,
        title=id.replace("-", " "),
        category="test",
        role="initiating",
        refines=refines,
        fallback=fallback,
        also_under=tuple(also_under),
        requires=tuple(when(text) if isinstance(text, str) else text for text in requires),
        evidence=tuple(evidence),
        against=tuple(against),
        **more,
    )


def pack_of(*entries, facts=(), signals=()):
    bodies = {
        one.id: msgspec.Raw(msgspec.msgpack.encode(EntryBody(sections={"Why it happens": "Because.\n\nMore."})))
        for one in entries
    }
    return Pack(
        signals=tuple(signals),
        facts={one.name: one for one in facts},
        causal=causal(),
        entries={one.id: one for one in entries},
        bodies=bodies,
    )
