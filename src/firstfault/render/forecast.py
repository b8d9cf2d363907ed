"""A forecast as terminal text: the verdict, the phases, what lies there at the peak, changes, assumptions."""

from __future__ import annotations

from firstfault.model.forecast import Change, FitVerdict, Forecast, Phase
from firstfault.render.layout import Canvas, cells, cut, fold
from firstfault.render.style import Look, Role
from firstfault.units import format_size

MIN_WIDTH = 40
_SMALL = 0.005
_GIB = 1 << 30
_ROLES: dict[FitVerdict, Role] = {"fits": "good", "tight": "warn", "does not fit": "fault", "unknown": "head"}
_TIERS = {"formula": "by formula", "trace": "by a traced step", "measured": "calibrated by a measurement"}


def render_forecast(made: Forecast, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The whole forecast as text of at most `width` columns."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    trained = f", {made.trainable_parameters:,} trained" if made.trainable_parameters != made.parameters else ""
    canvas.prose(f"{made.model} · {made.parameters:,} parameters{trained} · {_TIERS[made.tier]}", indent=0, full=True)
    canvas.blank()
    _verdict(canvas, made)
    for note in made.notes:
        canvas.prose(note)
    _phases(canvas, made)
    _components(canvas, made.phases[made.peak])
    if made.fit:
        canvas.heading("MAKE IT FIT", "each change on top of the ones before it")
        for number, change in enumerate(made.fit, 1):
            canvas.prose(f"{number}. {change.title}  ({change.cost})", hanging=5)
            canvas.code([(line, _edit_role(line)) for line in change.edit.splitlines()], indent=5)
            canvas.prose(f"peak {format_size(change.peak)}: {change.verdict}", indent=5)
    if made.changes:
        _changes(canvas, made.changes)
    _assumptions(canvas, made)
    for fact in made.missing:
        canvas.heading("MISSING", fact.fact)
        canvas.prose(fact.why)
        canvas.command(fact.command)
    return canvas.text()


def _edit_role(line: str) -> Role:
    """A line of a diff, or of a call to write."""
    return "fault" if line.startswith("-") else "dim" if line[:1] in (" ", "@") else "added"


def _verdict(canvas: Canvas, made: Forecast) -> None:
    peak = made.phases[made.peak]
    sizes = f"peak {format_size(peak.total.mid)} in {peak.name} ({format_size(peak.total.lo)} to {format_size(peak.total.hi)})"
    word = "FORECAST" if made.limit is None else made.verdict.upper()
    of = "" if made.limit is None else f" of {format_size(made.limit)}"
    lead = f"{word}  "
    for number, line in enumerate(fold(canvas.look.line(sizes + of), canvas.width - len(lead))):
        canvas.put((lead if not number else " " * len(lead), _ROLES[made.verdict]), (line, ""))
    oom = made.first_oom
    if oom is not None:
        canvas.prose(
            f"first to fail: {oom.phase}, a request of {format_size(oom.request)} for {oom.what} with "
            f"{format_size(oom.allocated)} allocated on {oom.device}",
            indent=len(lead),
        )


def _phases(canvas: Canvas, made: Forecast) -> None:
    canvas.blank()
    wide = canvas.width >= 80
    head = f"{'PHASE':<20}{'ALLOCATED':>10}{'RESERVED':>10}{'TOTAL':>10}"
    canvas.put((cut(head + ("  BAND OF THE TOTAL" if wide else ""), canvas.width), "head"))
    for number, phase in enumerate(made.phases):
        band = f"  {_gib(phase.total.lo)} to {_gib(phase.total.hi)}" if wide else ""
        row = (
            f"  {phase.name:<18}{_gib(phase.allocated.mid):>10}{_gib(phase.reserved.mid):>10}{_gib(phase.total.mid):>10}{band}"
        )
        mark = "  < peak" if number == made.peak else ""
        over = made.limit is not None and phase.total.mid > made.limit
        canvas.put((cut(row + mark, canvas.width), "warn" if over else ""))
    canvas.prose("GiB on the fullest device; reserved is what the allocator holds by then, total adds the context.", role="dim")


def _gib(size: int) -> str:
    return f"{size / _GIB:.2f}"


def _components(canvas: Canvas, phase: Phase) -> None:
    canvas.heading("AT THE PEAK", f"allocated in {phase.name}")
    for part in phase.components:
        if part.bytes < phase.allocated.mid * _SMALL:
            continue
        lead = f"  {format_size(part.bytes):>9}  {part.name}"
        for number, line in enumerate(fold(canvas.look.line(part.why), max(10, canvas.width - 38)) or [""]):
            text = f"{lead:<36}  {line}" if not number else f"{'':<38}{line}"
            canvas.put((cut(text.rstrip(), canvas.width), ""))


def _changes(canvas: Canvas, changes: tuple[Change, ...]) -> None:
    canvas.blank()
    canvas.put((f"{'SAVES GiB':>11}{'PEAK':>8}  SINGLE CHANGE", "head"))
    for change in changes:
        left = f"{change.saved / _GIB:>+11.2f}{_gib(change.peak):>8}  "
        for number, line in enumerate(fold(canvas.look.line(f"{change.title} ({change.cost})"), canvas.width - cells(left))):
            canvas.put((left if not number else " " * cells(left), ""), (line, ""))


def _assumptions(canvas: Canvas, made: Forecast) -> None:
    canvas.blank()
    canvas.put(("ASSUMED" if canvas.width < 80 else f"{'ASSUMED':<22}{'IS':<26}BECAUSE", "head"))
    for one in made.assumptions:
        value = "none" if one.value is None else str(one.value)
        lead = f"  {one.fact:<20}{value:<25} "
        if canvas.width < 80 or cells(lead) > 48:
            lead = f"  {one.fact}: {value}  "
            canvas.prose(f"{lead.strip()} ({one.source})", hanging=4)
            continue
        for number, line in enumerate(fold(canvas.look.line(one.source), canvas.width - cells(lead))):
            canvas.put((lead if not number else " " * cells(lead), ""), (line, "dim"))
