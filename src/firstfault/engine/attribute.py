"""Which event started the failure, on which rank, and which events are only consequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from firstfault.engine.account import Account, account_for
from firstfault.engine.align import Aligned
from firstfault.engine.circumstance import circumstances
from firstfault.engine.circumstance import survived as what_it_survived
from firstfault.engine.classes import Fault, read_faults, without_unlabelled_copies
from firstfault.engine.recovery import recovered_faults, run_finished
from firstfault.engine.remark import remark
from firstfault.engine.silent import Suspicion
from firstfault.knowledge.schema import CausalTable
from firstfault.model.diagnosis import Certainty
from firstfault.model.event import Clock, Event, ProcessExit

# A fault that was made by the engine is spoken of under the class whose entries describe it.
_SPOKEN = {
    "process_exit": "launcher_report",
    "kernel_segfault_line": "native_signal",
    "store_timeout": "peer_lost",
}
_NOISE = frozenset({"teardown_noise", "gpu_xid_cleanup"})


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """A fatal-looking event that is only a consequence of `by`; `rule` is one plain sentence.

    `by` is None for what was seen first where only consequences were seen: of a suspect no event is known.
    """

    event: Event
    by: Event | None
    rule: str


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to "what came first?".

    `fault_class` is `none` if nothing failed and `silent` if progress stops without an end or an error. `initiating` holds the
    event that counts first; where only consequences were seen it is the first of them, and `rank` is at most a suspect.
    `symmetric` is None where it cannot be told.
    """

    fault_class: str
    initiating: tuple[Event, ...] = ()
    rank: int | None = None
    ranks: tuple[int, ...] = ()
    relation: Literal["one", "symmetric", "several"] = "one"
    host: str | None = None
    time: Clock | None = None
    attempt: int | None = None
    certainty: Certainty = "undetermined"
    collateral: tuple[Explained, ...] = ()
    independent: tuple[Event, ...] = ()
    suspects: tuple[int, ...] = ()
    recovered: tuple[Event, ...] = ()
    finished: bool = False
    exits: tuple[ProcessExit, ...] = ()
    reason: str = ""
    circumstances: tuple[str, ...] = ()
    """Whole sentences about what is special: other attempts, a second failure, an error that was survived."""
    symmetric: bool | None = None


def spoken_class(fault_class: str) -> str:
    """The class under which entries describe a fault of this class."""
    return _SPOKEN.get(fault_class, fault_class)


def attribute(aligned: Aligned, causal: CausalTable, *, suspicion: Suspicion | None = None) -> Attribution:
    """Follow every fatal event to its cause; what nothing explains started the failure.

    `suspicion` is what an analysis of the ranks' collectives says of the one that did not arrive; without it, silent and
    missing ranks are suspected.
    """
    faults = without_unlabelled_copies(read_faults(aligned, causal))
    recovered = recovered_faults(faults, aligned, causal)
    finished = run_finished(aligned)
    survived = tuple(fault.event for fault in faults if fault in recovered)
    live = [fault for fault in faults if fault not in recovered]
    if not _failed(live, finished):
        said = None if finished else remark(aligned, live)
        if said is not None:
            return _of_remark(said, aligned, survived)
        fault_class = "none" if finished or not (_stops_short(aligned) or _shows_a_part(aligned)) else "silent"
        certainty: Certainty = "undetermined" if fault_class == "silent" else "established"
        return Attribution(
            fault_class=fault_class,
            recovered=survived,
            finished=finished,
            exits=aligned.exits,
            certainty=certainty,
            circumstances=what_it_survived([fault for fault in faults if fault in recovered], aligned),
        )
    accounts = _accounts(live, aligned, causal, suspicion)
    chosen = _answering(accounts)
    return _answer(chosen, accounts, aligned, survived, finished)


def _of_remark(said: Event, aligned: Aligned, survived: tuple[Event, ...]) -> Attribution:
    return Attribution(
        fault_class=said.fault_class or "none",
        initiating=(said,),
        relation="several",
        host=said.place.host,
        recovered=survived,
        exits=aligned.exits,
        reason="the line speaks of a failure that stands somewhere else",
    )


def _failed(live: Sequence[Fault], finished: bool) -> bool:
    if all(fault.fault_class in _NOISE for fault in live):
        return False
    ended_badly = any(fault.is_exit for fault in live)
    # After a normal end, a lost peer or a launcher's note is the noise of leaving.
    return not (finished and not ended_badly and all(fault.tier < 2 for fault in live))


def _stops_short(aligned: Aligned) -> bool:
    """True if training was going on where a log breaks off in the middle of a line, or where somebody asks about it in prose.

    A last step below the printed total says nothing: loops are left early, and bars of validation are steps too.
    """
    reports = aligned.bundle.reports
    asked = any(report.source.kind == "prose" for report in reports)
    return any(report.progress and (asked or not report.source.ends) for report in reports)


def _shows_a_part(aligned: Aligned) -> bool:
    """True if dumps were taken of ranks, and those of others, for which these may wait, are missing."""
    return aligned.hang is not None and aligned.hang.partial


def _accounts(
    live: Sequence[Fault], aligned: Aligned, causal: CausalTable, suspicion: Suspicion | None
) -> dict[int | None, Account]:
    """One account an attempt, the first attempt first; a later one knows what ended the one before it."""
    by_attempt: dict[int | None, list[Fault]] = {}
    for fault in live:
        by_attempt.setdefault(fault.event.place.attempt, []).append(fault)
    accounts: dict[int | None, Account] = {}
    before: Account | None = None
    for attempt in sorted(by_attempt, key=lambda a: -1 if a is None else a):
        found = accounts[attempt] = account_for(by_attempt[attempt], aligned, causal, before=before, suspicion=suspicion)
        # What an attempt without a failure of its own suffered from goes on in the next one.
        before = found if found.own or before is None else before
    return accounts


def _answering(accounts: dict[int | None, Account]) -> int | None:
    """The last attempt with an initiating event of its own; otherwise the last one that says anything."""
    own = [attempt for attempt, account in accounts.items() if account.own]
    return own[-1] if own else list(accounts)[-1]


def _answer(
    attempt: int | None,
    accounts: dict[int | None, Account],
    aligned: Aligned,
    survived: tuple[Event, ...],
    finished: bool,
) -> Attribution:
    account = accounts[attempt]
    choice = account.choice
    first = choice.initiating[0].event if choice.initiating else None
    fault_class = choice.initiating[0].fault_class if choice.initiating else "none"
    rank = choice.rank
    host = (first.place.host if first else None) or (aligned.rank_map.hosts.get(rank) if rank is not None else None)
    collateral = [
        Explained(event=effect.event, by=cause.event, rule=sentence)
        for found in accounts.values()
        for effect, cause, sentence in found.explained
        if found is account or not found.own
    ]
    if first is not None and not account.own and account.suspects and first.place.rank not in (None, *account.suspects):
        # What was seen first is a consequence too, unless it is a suspect's own.
        collateral.insert(0, Explained(event=first, by=None, rule=choice.reason))
    return Attribution(
        fault_class=spoken_class(fault_class),
        initiating=tuple(fault.event for fault in choice.initiating),
        rank=rank,
        ranks=choice.ranks,
        relation=choice.relation,
        host=host if choice.relation == "one" else None,
        time=first.place.time if first and account.own else None,
        attempt=attempt,
        certainty=choice.certainty,
        collateral=tuple(collateral),
        independent=tuple(fault.event for fault in account.independent),
        suspects=account.suspects,
        recovered=survived,
        finished=finished,
        exits=tuple(x for x in aligned.exits if attempt is None or x.place.attempt in (None, attempt)),
        reason=choice.reason,
        circumstances=circumstances(attempt, accounts, aligned),
        symmetric=account.symmetric,
    )
