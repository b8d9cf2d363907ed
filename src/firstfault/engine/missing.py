"""Which fact would decide, computed from the conditions that are still open: the one that separates most, cheapest first."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from firstfault.engine.match import FRAMES_PRODUCER, half_known
from firstfault.engine.what_if import decides_alone
from firstfault.knowledge.expression import parse
from firstfault.knowledge.schema import Cost
from firstfault.model.diagnosis import Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from firstfault.engine.blanks import Blanks
    from firstfault.engine.lookup import Known
    from firstfault.engine.match import Candidate, Walk
    from firstfault.knowledge.schema import Condition, FactSpec, Pack
    from firstfault.model.fact import FactValue

MAX_MISSING = 5
_HANDED_OVER = frozenset({FRAMES_PRODUCER, "engine/attribute", "engine/derive/hangs"})
"""Who reads what a person hands over as files, not in a word."""
_EXAMPLES = {"bytes": "SIZE", "int": "NUMBER", "float": "NUMBER", "rank": "NUMBER", "path": "PATH", "int list": "NUMBERS"}
_COSTS: dict[str, int] = {cost: rank for rank, cost in enumerate(get_args(Cost))}
# What to ask for where only consequences were seen, by the class of the consequence; the last row serves all others.
_BEHIND_COLLATERAL: tuple[tuple[frozenset[str], tuple[str, ...]], ...] = (
    (frozenset({"launcher_report", "launcher_sigterm", "step_teardown"}), ("fault.own_exceptions", "exit.code")),
    (frozenset({"silent"}), ("exit.code", "exit.signal_sender")),
    (frozenset({"cuda_note"}), ("cuda.error", "cuda.blocking")),
    (frozenset({"gpu_xid_cleanup"}), ("gpu.xid_first", "exit.code")),
    (frozenset({"resume_note"}), ("fault.own_exceptions", "exit.code")),
    (frozenset({"gpu_state"}), ("gpu.xid_first", "fault.own_exceptions")),
    (frozenset({"error_line"}), ("exc.root_type",)),
    (frozenset({"nccl_abort_note"}), ("fault.own_exceptions", "fault.rank_has_log")),
    (frozenset({"none"}), ("launch.command", "fault.class")),
    (frozenset(), ("fault.rank_has_log", "collective.suspect_kind", "fault.own_exceptions")),
)
# Who lost a peer cannot say how that one ended. Where the one is known: its exit code, its output, the kernel of its host.
_BEHIND_A_LOST_PEER = ("exit.code", "fault.rank_has_log", "host.oom_kill")
# Nothing was reported yet, and the processes hold the answer as long as they live.
_BESIDE_A_PART = ("collective.dumps_of_all",)
_WHILE_IT_HANGS = ("hang.stack_outlier", "hang.ras_behind")
# The rank that did not come is known, and it lived: what it was doing is all that is missing.
_BEHIND_A_LATE_RANK = ("collective.suspect_activity", "fault.rank_has_log", "collective.suspect_kind")
# The rank is known and its process did its part, or nobody is late: the machine holds the answer.
_BEHIND_A_KIND: dict[FactValue | None, tuple[str, ...]] = {
    "gpu_stalled": ("gpu.xid_first", "gpu.handle_lost", "hang.blocked_in"),
    "host_blocked": ("hang.blocked_in", "gpu.xid_first"),
    "fabric": ("hang.ras_behind", "host.link_errors", "gpu.xid_first", "nccl.warn"),
}
# A failure that no entry knows: its whole traceback is the least that a person needs.
_WITHOUT_ENTRY = ("exc.root_type",)


def missing_facts(walk: Walk, known: Known, pack: Pack, blanks: Blanks) -> tuple[Missing, ...]:
    """The facts to ask for, the one to ask first in front. Nothing is missing where the answer is established."""
    if walk.verdict in {"established", "no_failure"}:
        return ()
    deciding: dict[str, dict[str, None]] = {}
    required: Counter[str] = Counter()
    alone: set[str] = set()
    for candidate in walk.open:
        required.update(name for name, _ in _names(candidate.entry.requires, candidate, known))
        for name, condition in _open_names(candidate, known):
            deciding.setdefault(name, {})[candidate.entry.id] = None
            if name not in alone and name in pack.facts and decides_alone(condition.if_, pack.facts[name], known):
                alone.add(name)
    finding = walk.finding
    facts = [pack.facts[name] for name in _askable(deciding, known, pack)]
    # What entries require decides more of them than what would only support or exclude one; a fact whose every answer leaves
    # its conditions open decides nothing yet.
    order = {name: index for index, name in enumerate(deciding)}
    facts.sort(key=lambda s: (s.name not in alone, _COSTS[s.cost], -required[s.name], -len(deciding[s.name]), order[s.name]))
    if walk.only_collateral or finding is None or _of_plans(walk, {}, known):
        names = (
            _behind(known)
            if walk.only_collateral or known.value("fault.class") in {"none", "silent"}
            else _without(pack, known)
        )
        if walk.open and not walk.only_collateral and known.value("fault.class") in {"none", "silent"}:
            names = (*_of_plans(walk, deciding, known), *names)
        front = [pack.facts[name] for name in names if name in pack.facts and not _is_settled(name, known)]
        facts = [*front, *(spec for spec in facts if spec not in front)]
    elif known.value("hang.alive") is True and known.value("fault.class") in {"none", "silent"}:
        # Who took a stack, or asked RAS, can do so once more.
        alive = known.fact("hang.alive")
        stacks = known.value("hang.stack_dumped") is True or (alive is not None and alive.basis == "told")
        again = _WHILE_IT_HANGS if stacks else tuple(reversed(_WHILE_IT_HANGS))
        front = [pack.facts[name] for name in again if name in pack.facts and known.value(name) is None]
        facts = [*front, *(spec for spec in facts if spec not in front)]
    elif known.value("run.gone") is True and known.value("fault.class") == "silent":
        front = [pack.facts[name] for name in _behind(known) if name in pack.facts and not _is_settled(name, known)]
        facts = [*front, *(spec for spec in facts if spec not in front)]
    if known.value("collective.dumps_of_all") is False and known.value("fault.rank") is None and _says_nothing(walk, known):
        front = [pack.facts[name] for name in _BESIDE_A_PART if name in pack.facts]
        facts = [*front, *(spec for spec in facts if spec not in front)]
    machine = _BEHIND_A_KIND.get(known.value("collective.suspect_kind"), ())
    front = [pack.facts[name] for name in machine if name in pack.facts and known.value(name) is None]
    facts = [*front, *(spec for spec in facts if spec not in front)]
    return tuple(_missing(spec, _separates(spec, deciding, walk), pack, blanks) for spec in facts[:MAX_MISSING])


def _says_nothing(walk: Walk, known: Known) -> bool:
    return walk.only_collateral or known.value("fault.class") == "silent"


def _of_plans(walk: Walk, deciding: dict[str, dict[str, None]], known: Known) -> list[str]:
    """What decides between a start that was meant and the entries that its settings make possible."""
    asked: dict[str, None] = {}
    for candidate in walk.open:
        for condition in candidate.entry.plan:
            if half_known(condition, known):
                for name in sorted(parse(condition.if_).unknowns(known)):
                    deciding.setdefault(name, {})[candidate.entry.id] = None
                    asked[name] = None
    return list(asked)


def _open_names(candidate: Candidate, known: Known) -> Iterator[tuple[str, Condition]]:
    """Unknown facts that could make, break or decide `candidate`, its requirements first."""
    entry = candidate.entry
    deciding = (
        *entry.requires,
        *(c for c in entry.against if c.veto),
        *(c for c in entry.evidence if c.decisive),
        *(c for c in entry.evidence if not c.decisive and c.weight >= 3),
    )
    return _names(deciding, candidate, known)


def _names(conditions: Iterable[Condition], candidate: Candidate, known: Known) -> Iterator[tuple[str, Condition]]:
    unknown = set(map(id, candidate.unknown))
    for condition in conditions:
        if id(condition) in unknown:
            for name in sorted(parse(condition.if_).unknowns(known)):
                yield name, condition


def _askable(names: Iterable[str], known: Known, pack: Pack) -> Iterator[str]:
    whole = known.value("exc.calls_more") is True
    for name in names:
        spec = pack.facts.get(name)
        if spec is None or name == "fault.class":
            continue
        # The whole traceback is here and does not say it: asking for it again would not help.
        if whole and spec.producer == FRAMES_PRODUCER:
            continue
        yield name


def _behind(known: Known) -> tuple[str, ...]:
    fault_class = known.value("fault.class")
    if fault_class == "peer_lost" and known.value("fault.rank_silent") is True:
        return _BEHIND_A_LOST_PEER
    if fault_class == "collective_timeout" and known.value("collective.suspect_alive") is True:
        return _BEHIND_A_LATE_RANK
    for classes, names in _BEHIND_COLLATERAL:
        if not classes or fault_class in classes:
            return names
    return ()


def _without(pack: Pack, known: Known) -> tuple[str, ...]:
    """What to ask of a failure that no entry knows: an exception has a traceback, a stop from outside has none."""
    raised = {"python_exception", *(kind.fault_class for kind in pack.causal.exception_types)}
    return _WITHOUT_ENTRY if known.value("fault.class") in raised else ()


def _is_settled(name: str, known: Known) -> bool:
    """True if the fact is known and a further log would not change it; that a late rank was training is no reason."""
    value = known.value(name)
    return value is not None and value is not False and value not in (0, "none", "train")


def _separates(spec: FactSpec, deciding: dict[str, dict[str, None]], walk: Walk) -> tuple[str, ...]:
    ids = dict(deciding.get(spec.name, {}))
    if walk.finding is not None and len(ids) == 1:
        ids |= dict.fromkeys(candidate.entry.id for candidate in walk.open[:3])
        ids.setdefault(walk.finding.entry.id)
    return tuple(ids)


def _missing(spec: FactSpec, separates: tuple[str, ...], pack: Pack, blanks: Blanks) -> Missing:
    titles = [f"“{pack.entries[entry].title}”" for entry in separates if entry in pack.entries]
    decides = ""
    if len(titles) == 1:
        decides = f" It decides whether it is {titles[0]}."
    elif titles:
        shown = titles[:3] if len(titles) > 3 else titles[:-1]
        last = f"{len(titles) - 3} more" if len(titles) > 3 else titles[-1]
        decides = f" It decides between {', '.join(shown)} and {last}."
    return Missing(
        fact=spec.name,
        ask=spec.ask,
        why=spec.ask + decides,
        command=blanks.fill(spec.obtain),
        values=_values(spec),
        separates=separates,
        cost=spec.cost,
    )


def _values(spec: FactSpec) -> tuple[str, ...]:
    """What a person can answer in a word. What stands in a traceback or a log is handed over instead."""
    if spec.producer in _HANDED_OVER:
        return ()
    if spec.type == "bool":
        return ("yes", "no")
    if spec.type in ("enum", "enum list"):
        return tuple(str(value).lower() if isinstance(value, bool) else value for value in spec.values)
    return (_EXAMPLES.get(spec.type, "TEXT"),)
