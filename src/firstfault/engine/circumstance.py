"""What must be said beside who was first: other attempts, a second fault of its own, a kill by the launcher, an echo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from firstfault.engine.account import Account
from firstfault.engine.align import Aligned
from firstfault.engine.classes import Fault
from firstfault.engine.log_place import place_of_log
from firstfault.engine.recovery import ended_above, is_finish, is_flushed_late
from firstfault.engine.wording import listed, subject
from firstfault.units import format_duration

MAX_PLACES = 2
MAX_UNORDERED = 4
CLOSE_S = 1.0
"""Two clocks that agree so far do not leave an order open by themselves."""
_OWN = 6
"""From this weight on, a fault is worth a sentence of its own."""
_LOST = frozenset({"peer_lost", "collective_timeout", "store_timeout", "nccl_error"})


def circumstances(attempt: int | None, accounts: Mapping[int | None, Account], aligned: Aligned) -> tuple[str, ...]:
    """Whole sentences about a failure, the most important one first; none if nothing is special about it."""
    account = accounts[attempt]
    return (
        *_shared(account),
        *_unordered(account, aligned),
        *((account.doubt,) if account.doubt else ()),
        *_other_attempts(attempt, accounts),
        *_second_faults(account, aligned),
        *_after_work(account, aligned),
        *_echoes(account, aligned),
        *_killed_by_launcher(account),
        *_not_handed_over(account, aligned),
    )


def survived(faults: Sequence[Fault], aligned: Aligned) -> tuple[str, ...]:
    """What a run that did not fail has survived: attempts that were restarted, errors that it went on after."""
    own = [fault for fault in faults if fault.tier > 2]
    if not own:
        return ()
    last = aligned.attempts[-1] if len(aligned.attempts) > 1 else None
    before = [fault for fault in own if last is not None and fault.event.place.attempt not in (None, last)]
    if before:
        first = before[0]
        end = "came to its end" if any(map(is_finish, aligned.events)) else "goes on as far as the log reaches"
        return (
            f"Attempt {first.event.place.attempt} failed ({subject(first)}), the run was restarted, and attempt {last} {end}.",
        )
    return (f"The run went on after an error: {subject(own[0])}.",)


def _shared(account: Account) -> Iterator[str]:
    if account.choice.relation == "symmetric" and account.own:
        yield f"{account.choice.reason[:1].upper()}{account.choice.reason[1:]}: no single rank started it."


def _unordered(account: Account, aligned: Aligned) -> Iterator[str]:
    """Failures that started by themselves and whose order the evidence leaves open."""
    choice = account.choice
    if not account.own or choice.relation != "several" or choice.certainty != "undetermined":
        return
    by_process = {(fault.rank, fault.host): fault for fault in reversed(choice.initiating)}
    first, *others = sorted(by_process.values(), key=lambda fault: (fault.rank is None, fault.rank or 0, fault.host or ""))
    if not others:
        return
    named = "; ".join(_with_error(fault) for fault in (first, *others)[:MAX_UNORDERED])
    left = len(others) + 1 - MAX_UNORDERED
    more = f"; and {left} more" if left > 0 else ""
    why = _why_open(first, others, aligned)
    yield f"{len(others) + 1} processes failed by themselves: {named}{more}. Which was first is open: {why}."


def _with_error(fault: Fault) -> str:
    where = f" on {fault.host}" if fault.host else ""
    traceback_type = str(fault.event.captures.get("exc_type", "")).rpartition(".")[2]
    return f"{subject(fault)}{where}{f' ({traceback_type})' if traceback_type else ''}"


def _why_open(first: Fault, others: Sequence[Fault], aligned: Aligned) -> str:
    place = first.event.place
    if any(fault.event.place.time is None for fault in (first, *others)):
        return "not all of their lines carry a time"
    for fault in others:
        delay = aligned.clocks.delay(place, fault.event.place)
        if delay is None:
            return f"the clocks of {place.host} and {fault.host} cannot be compared"
        if delay.error_s > CLOSE_S:
            error = format_duration(delay.error_s)
            return f"the clocks of {place.host} and {fault.host} are known to each other to {error} only"
    return "they lie too close together"


def _other_attempts(attempt: int | None, accounts: Mapping[int | None, Account]) -> Iterator[str]:
    chosen = accounts[attempt]
    others = {number: found for number, found in accounts.items() if number not in (attempt, None)}
    if attempt is None or not others:
        return
    same = [number for number, found in others.items() if found.own and _same_shape(found, chosen)]
    here = [number for number in same if others[number].choice.rank == chosen.choice.rank]
    if here and chosen.choice.rank is not None:
        yield f"It came back: {_attempts(here)} failed in the same way, on the same rank."
    elif here:
        yield f"It came back: {_attempts(here)} failed in the same way."
    if elsewhere := [number for number in same if number not in here]:
        ranks = listed(sorted({rank for n in elsewhere if (rank := others[n].choice.rank) is not None}))
        yield f"{_attempts(elsewhere).capitalize()} failed in the same way, on {ranks or 'an unknown rank'}."
    if differently := [number for number, found in others.items() if found.own and number not in same]:
        number = differently[-1]
        yield f"{_attempts(differently).capitalize()} failed differently: {subject(others[number].choice.initiating[0])}."
    if follow := [number for number, found in others.items() if not found.own and (number or 0) > attempt]:
        shown = "they show" if len(follow) > 1 else "it shows"
        yield f"{_attempts(follow).capitalize()} did not get going again: what {shown} follows from it."


def _second_faults(account: Account, aligned: Aligned) -> Iterator[str]:
    first = account.choice.initiating[0] if account.choice.initiating else None
    for fault in account.independent:
        if first is None or fault.tier < 2 or fault.weight < _OWN:
            continue
        delay = aligned.clocks.delay(first.event.place, fault.event.place)
        later = f" {format_duration(delay.seconds)} later" if delay is not None and delay.seconds > delay.error_s else ""
        yield f"A second failure is independent of it: {subject(fault)}{later}."
        return


def _after_work(account: Account, aligned: Aligned) -> Iterator[str]:
    if not account.own or not account.choice.initiating:
        return
    first = account.choice.initiating[0].event
    ends = [end for end in aligned.events if is_finish(end) and end.source_id == first.source_id]
    others = [end.place.rank for end in ends if end.span.offset < first.span.offset and end.place.rank != first.place.rank]
    if ended_above(first, aligned) is not None:
        yield "The end of training stands above it: the work was done, and it failed while the run was being closed."
    elif first.place.rank is not None and any(rank is not None for rank in others):
        named = listed(sorted({rank for rank in others if rank is not None}))
        yield f"The end of training of {named} stands above it: it may have failed while the run was being closed."
    elif any(is_flushed_late(end.place, first) for end in ends):
        yield "By its time, the end of training was before it: the work was done, and it failed while the run was being closed."


def _echoes(account: Account, aligned: Aligned) -> Iterator[str]:
    """Exceptions that were raised while a lost peer was handled: they are loud, and no failures of their own."""
    own = () if account.own else account.choice.initiating
    for fault in (*(effect for effect, _, _ in account.explained), *own):
        traceback = aligned.traceback_of(fault.event)
        if fault.fault_class not in _LOST or fault.rank is None or traceback is None or len(traceback.blocks) < 2:
            continue
        raised = traceback.last.type.rpartition(".")[2]
        if raised and raised != traceback.root.type.rpartition(".")[2]:
            yield f"The {raised} of rank {fault.rank} was raised while it handled the lost connection: it is no second failure."
            return


def _killed_by_launcher(account: Account) -> Iterator[str]:
    told = {fault.rank for fault, _, _ in account.explained if fault.fault_class == "launcher_sigterm"} - {None}
    killed = sorted(
        {f.rank for f, _, _ in account.explained if f.fault_class == "exit_sigkill" and f.rank is not None and f.rank in told}
    )
    if killed:
        yield f"The launcher itself killed {listed(killed)} (SIGKILL), which had not ended on SIGTERM: no OOM killer did."


def _not_handed_over(account: Account, aligned: Aligned) -> Iterator[str]:
    """Where the logs of suspects lie of which nothing was handed over."""
    absent = [rank for rank in account.suspects if rank not in aligned.ranks][:MAX_PLACES]
    for rank in absent:
        if place := place_of_log(rank, aligned):
            yield f"What rank {rank} printed was not handed over; look at {place}."


def _same_shape(a: Account, b: Account) -> bool:
    return bool(a.choice.initiating and b.choice.initiating) and a.choice.initiating[0].shape == b.choice.initiating[0].shape


def _attempts(numbers: Sequence[int | None]) -> str:
    named = [str(number) for number in numbers]
    return f"attempt {named[0]}" if len(named) == 1 else f"attempts {', '.join(named[:-1])} and {named[-1]}"
