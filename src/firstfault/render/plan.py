"""A plan as terminal text: what will start, each value with its place, and what changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.plan import Lightning, NoEffect, Origin, Plan, Process
from firstfault.render.layout import Canvas, cells, cut, fold
from firstfault.render.plan_findings import write_findings
from firstfault.render.style import Look, Role

MAX_PROCESSES = 8
MIN_WIDTH = 40
_LABEL = 12
_THROUGH = {
    "torchelastic": " under torchelastic",
    "deepspeed": " through the deepspeed launcher",
    "mpirun": " through mpirun",
    "srun": " through srun",
}


def render_plan(plan: Plan, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The whole plan as text of at most `width` columns."""
    canvas = Canvas(Look(width=max(MIN_WIDTH, width), color=color, ascii=ascii))
    canvas.prose(_known(plan), indent=0, full=True)
    _verdict(canvas, plan)
    if plan.variants:
        _variants(canvas, plan)
    elif plan.processes:
        _processes(canvas, plan)
    if plan.origins:
        _values(canvas, plan.origins, plan.no_effect)
    _said(canvas, plan)
    for fact in plan.unknown:
        canvas.heading("MISSING", fact.fact)
        canvas.prose(fact.why)
        canvas.command(fact.command)
    if plan.notes:
        canvas.heading("NOTES")
        for note in plan.notes:
            canvas.prose(note, hanging=4)
    return canvas.text()


def _known(plan: Plan) -> str:
    gpus = "GPU count not known" if plan.gpus is None else f"{plan.gpus} GPU{'' if plan.gpus == 1 else 's'} on this machine"
    names = [f"{name} {text}" for name, text in sorted(plan.versions.items())]
    if plan.tool == "accelerate" and "accelerate" not in plan.versions:
        names.insert(0, "accelerate: version not known, newest rules taken")
    return " · ".join([gpus, *names])


def _verdict(canvas: Canvas, plan: Plan) -> None:
    canvas.blank()
    if plan.error is not None:
        _labelled(canvas, "STOPS WITH", f"{plan.error.type}: {plan.error.message}", role="fault")
        return
    text = _start(plan)
    unknown = "not known without the facts below" if plan.unknown else "nothing that is known here"
    _labelled(canvas, "WILL START", text or unknown, role="" if text else "warn")
    for consequence in (_consequence(plan), _compile(plan)):
        if consequence:
            _labelled(canvas, "", consequence, role="warn")


def _labelled(canvas: Canvas, label: str, text: str, role: Role = "") -> None:
    look = canvas.look
    for number, line in enumerate(fold(look.line(text), canvas.width - _LABEL)):
        left = label if not number else ""
        canvas.put((left + " " * (_LABEL - len(left)), "head"), (line, role))


def _start(plan: Plan) -> str:
    """What starts on this machine, in one sentence; empty if that is not known."""
    count = plan.nproc_per_node
    if count == 0 and plan.starter is None:
        return "nothing"
    if count is None:
        return "" if plan.starter is None else f"processes through {plan.starter}, how many is not known"
    processes = f"{count} process{'' if count == 1 else 'es'}"
    machines = plan.nnodes
    if isinstance(machines, tuple):
        processes += f" on each of {machines[0]} to {machines[1]} machines"
    elif machines is not None and machines > 1:
        processes += f" on this machine, {plan.world_size} in all on {machines} machines"
    through = _THROUGH.get(plan.starter or "", "")
    visible = plan.processes[0].visible if plan.processes else None
    sees = ""
    if visible is not None:
        who = "that sees" if count == 1 else "that each see"
        sees = f" {who} {'no GPU' if not visible else '1 GPU' if len(visible) == 1 else f'{len(visible)} GPUs'}"
    return f"{processes}{through}{sees}"


def _consequence(plan: Plan) -> str:
    """What the framework makes of the start, where that is more than one would expect."""
    first = plan.rank0
    if first is None:
        return ""
    if first.error is not None:
        return f"then the first process stops with {first.error.type}: {first.error.message}"
    if plan.lightning is not None:
        return _lightning(plan.lightning)
    if first.wraps_in_DataParallel:
        return (
            f"if the script uses transformers.Trainer, it wraps the model in nn.DataParallel: {first.n_gpu} copies, "
            f"outputs gathered on {first.device}, batch {first.n_gpu} x the per-device one"
        )
    several = (plan.nproc_per_node or 0) > 1
    if several and first.device == "cpu" and plan.starter == "torchelastic" and not first.init_process_group:
        return "no GPU is visible: each process trains on the CPU on its own, and all write the same files"
    return ""


def _lightning(found: Lightning) -> str:
    """What Lightning's Trainer makes of its process."""
    if found.error is not None:
        return f"then Lightning's Trainer stops with {found.error.type}: {found.error.message}"
    if found.devices is None or found.accelerator is None:
        return "Lightning's Trainer decides its devices by what is not known here"
    each = f"{found.devices} device{'' if found.devices == 1 else 's'} ({found.accelerator})"
    more = f", and starts {found.starts} more process{'' if found.starts == 1 else 'es'} itself" if found.starts else ""
    total = f": {found.world_size} in all" if (found.world_size or 1) > 1 else ""
    return f"Lightning's Trainer takes {each}, strategy {found.strategy or 'not known'}{more}{total}"


def _compile(plan: Plan) -> str:
    """That the compiler which was asked for is not used."""
    backend = plan.env_set.get("ACCELERATE_DYNAMO_BACKEND", "NO")
    if backend == "NO" or plan.rank0 is None or plan.rank0.compiles is not False:
        return ""
    return f"torch.compile ({backend}) is asked for, and the Trainer does not apply it on this path"


def _processes(canvas: Canvas, plan: Plan) -> None:
    canvas.blank()
    canvas.put((cut("  process  rank   sees                device", canvas.width), "head"))
    for number, process in enumerate(plan.processes[:MAX_PROCESSES]):
        canvas.put((cut(_row(number, process), canvas.width), ""))
    left = len(plan.processes) - MAX_PROCESSES
    total = plan.nproc_per_node or len(plan.processes)
    if left > 0:
        canvas.prose(f"and {total - MAX_PROCESSES} more", indent=2)


def _row(number: int, process: Process) -> str:
    rank = "none" if process.rank is None else str(process.rank)
    sees = "?" if process.visible is None else "no GPU" if not process.visible else "GPU " + ",".join(process.visible)
    return f"  {number:<9}{rank:<7}{cut(sees, 18):<20}{process.device or '?'}".rstrip()


def _variants(canvas: Canvas, plan: Plan) -> None:
    canvas.blank()
    for count, variant in plan.variants.items():
        text = f"stops with {variant.error.type}: {variant.error.message}" if variant.error else _start(variant)
        extra = _consequence(variant)
        found = ", ".join(finding.entry for finding in variant.findings)
        parts = [part for part in (text, extra, f"findings: {found}" if found else "") if part]
        canvas.labelled(f"{count} GPU{'' if count == 1 else 's'}", "; ".join(parts), column=_LABEL)


def _values(canvas: Canvas, origins: Sequence[Origin], lost: Sequence[NoEffect]) -> None:
    column = min(max((cells(origin.name) for origin in origins), default=0) + 4, canvas.width // 3)
    canvas.blank()
    canvas.put((f"{'VALUE':<{column}}{'IS':<{_value_columns(canvas)}}COMES FROM", "head"))
    for origin in origins:
        value = "none" if origin.value is None else str(origin.value)
        overrode = "".join(f", over {lost.value} ({lost.where})" for lost in origin.overrode)
        _value_row(canvas, origin.name, value, f"{origin.where}{overrode}", column)
    for name, where, why in _grouped(lost):
        what = name if where in (name, "command line") else f"{name}, {where}"
        _value_row(canvas, "no effect", "", f"{what}: {why}", column, joined=True)


def _value_columns(canvas: Canvas) -> int:
    return 22 if canvas.width >= 72 else 10


def _value_row(canvas: Canvas, name: str, value: str, where: str, column: int, *, joined: bool = False) -> None:
    look = canvas.look
    lead = f"  {cut(look.line(name), column - 3)}".ljust(column)
    start = column
    if not joined:
        shown = look.line(value)
        columns = _value_columns(canvas)
        if cells(shown) < columns:
            lead += shown + " " * (columns - cells(shown))
            start += columns
        else:
            where = f"{value}  {where}"
    for number, line in enumerate(fold(look.line(where), canvas.width - start)):
        canvas.put((lead if not number else " " * start, "dim" if joined else ""), (line, "dim" if joined else ""))


def _grouped(lost: Sequence[NoEffect]) -> list[tuple[str, str, str]]:
    """Keys of one nested table that are lost for one reason stand in one row."""
    groups: dict[tuple[str, str], list[NoEffect]] = {}
    for one in lost:
        table, dot, _ = one.key.partition(".")
        groups.setdefault((table if dot else one.key, one.why), []).append(one)
    rows: list[tuple[str, str, str]] = []
    for (table, why), keys in groups.items():
        if len(keys) == 1:
            rows.append((keys[0].key, keys[0].where, why))
            continue
        file, _, first = keys[0].where.rpartition(":")
        last = keys[-1].where.rpartition(":")[2]
        rows.append((f"{table}.* ({len(keys)} keys)", f"{file}:{first}-{last}", why))
    return rows


def _said(canvas: Canvas, plan: Plan) -> None:
    """Findings, and what the launcher itself says."""
    if plan.findings:
        write_findings(canvas, plan.findings)
    messages = [*plan.warnings, *plan.log]
    if messages:
        canvas.heading("THE LAUNCHER WILL SAY")
        for message in messages:
            words = [word for word in message.split() if word.strip("*")]
            canvas.prose(" ".join(words), hanging=4, max_lines=4)
