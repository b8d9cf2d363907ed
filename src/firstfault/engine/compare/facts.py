"""What two runs were found to be: processes, batch, memory and progress, by the facts of both."""

from __future__ import annotations

from firstfault.engine.compare.rows import UNKNOWN, Rows
from firstfault.engine.compare.side import Side
from firstfault.knowledge.schema import FactSpec, Pack
from firstfault.model.comparison import SideValue, Topic
from firstfault.model.fact import Fact, FactSet
from firstfault.units import format_size

# Facts by the start of their names; the first that fits.
_TOPICS: tuple[tuple[str, Topic], ...] = (
    ("launch.command", "argument"),
    ("launch.", "plan"),
    ("trainer.", "plan"),
    ("run.world_size", "plan"),
    ("run.strategy", "plan"),
    ("run.zero_stage", "plan"),
    ("run.framework", "plan"),
    ("run.steps_done", "progress"),
    ("run.finished", "progress"),
    ("train.", "batch"),
    ("model.", "configuration"),
    ("oom.", "memory"),
    ("memory.", "memory"),
    ("host.ram_bytes", "machine"),
    ("gpu.count_torch", "machine"),
    ("lib.torch_has_cuda", "version"),
)
_NOT_COMPARED = frozenset(
    {"launch.command", "run.attempts", "oom.same_device_on_ranks", "oom.phase", "oom.consumer", "oom.device", "oom.allocator"}
)
# What only a failure prints, or every failing run lacks: unknown on the other side says nothing.
_BOTH_OR_NONE = ("oom.", "run.", "launch.processes_asked", "launch.rank_labels_seen", "launch.world_size_seen")
_NAMES = {
    "launch.starter": "started by",
    "launch.processes": "processes on a machine",
    "launch.processes_asked": "processes asked for",
    "launch.world_size_seen": "world size printed",
    "launch.visible_gpus": "GPUs a process sees",
    "launch.nodes_asked": "machines asked for",
    "launch.config_source": "source of the configuration",
    "trainer.n_gpu": "Trainer: GPUs of a process",
    "trainer.uses_dataparallel": "nn.DataParallel",
    "run.world_size": "processes in all",
    "run.strategy": "strategy",
    "run.zero_stage": "ZeRO stage",
    "run.framework": "framework of the loop",
    "run.steps_done": "steps done",
    "run.finished": "reached its end",
    "train.micro_batch": "batch of a device",
    "train.accumulation_steps": "accumulated steps",
    "train.seq_len": "sequence length",
    "train.gradient_checkpointing": "gradient checkpointing",
    "train.weights_dtype": "type of the weights",
    "train.eval_accumulation_steps": "eval_accumulation_steps",
    "model.vocab_size": "vocabulary",
    "oom.requested_bytes": "refused request",
    "oom.total_bytes": "memory of the GPU",
    "oom.free_bytes": "free at that moment",
    "oom.process_bytes": "held by the process",
    "oom.allocated_bytes": "allocated by PyTorch",
    "oom.reserved_bytes": "reserved by PyTorch",
    "oom.unallocated_bytes": "reserved, unallocated",
    "host.ram_bytes": "memory of the host",
}
_BY_PLAN = ("launch.", "trainer.", "run.")


def fact_rows(a: Side, b: Side, pack: Pack, rows: Rows) -> None:
    """Adds a row for each fact that is a value of the run; what the plans of both sides show stands there."""
    planned = a.plan is not None and b.plan is not None
    for name in sorted({*a.facts, *b.facts}):
        topic = next((topic for start, topic in _TOPICS if name.startswith(start)), None)
        if topic is None or name in _NOT_COMPARED or (planned and name.startswith(_BY_PLAN) and topic == "plan"):
            continue
        spec = pack.facts.get(name)
        left, right = _value(a.facts, name), _value(b.facts, name)
        if name.startswith(_BOTH_OR_NONE) and "unknown" in (left.state, right.state):
            continue
        rows.add(
            topic, name, _NAMES.get(name) or (spec.says if spec else name), [left, right], _change(name, spec, a.facts, b.facts)
        )
    rows.add("batch", "effective_batch", "effective batch", [_effective(side) for side in (a, b)])


def _value(facts: FactSet, name: str) -> SideValue:
    fact = facts.get(name)
    if fact is None:
        return UNKNOWN
    value = fact.value
    if name.endswith("_bytes") and isinstance(value, int | float) and not isinstance(value, bool):
        value = format_size(int(value))
    return SideValue(value=", ".join(map(str, value)) if isinstance(value, tuple) else value, where=_where(fact))


def _where(fact: Fact) -> str:
    told = " (told)" if fact.basis == "told" else ""
    return (str(fact.spans[0]) if fact.spans else fact.origin) + told


def _change(name: str, spec: FactSpec | None, a: FactSet, b: FactSet) -> str:
    """By how much B's number is more or less, where a ratio says something."""
    left, right = a.value(name), b.value(name)
    numbers = [value for value in (left, right) if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < 2 or spec is None or spec.type not in ("bytes", "int", "float"):
        return ""
    return change(float(numbers[0]), float(numbers[1]))


def change(a: float, b: float) -> str:
    """B against A in words: `2 times A`, `12 % less`; empty where they are too close, or A is nothing."""
    if a <= 0 or b < 0 or a == b:
        return ""
    if b >= 2 * a:
        return f"{b / a:.3g} times A"
    percent = abs(b - a) / a * 100
    return f"{percent:.2g} % {'more' if b > a else 'less'}" if percent >= 0.1 else ""


def _effective(side: Side) -> SideValue:
    """Per-device batch times devices times accumulated steps; unknown unless all three are known."""
    batch = effective_batch(side)
    return UNKNOWN if batch is None else SideValue(value=batch[0], where=batch[1])


def effective_batch(side: Side) -> tuple[int, str] | None:
    """The samples of one optimizer step of a run, and how they are counted."""
    facts = side.facts
    micro, steps = facts.value("train.micro_batch"), facts.value("train.accumulation_steps")
    replicas = replicas_of(facts)
    if not isinstance(micro, int) or replicas is None:
        return None
    if isinstance(steps, int) and steps > 0:
        return micro * replicas * steps, f"{micro} x {replicas} devices x {steps} accumulated"
    return micro * replicas, f"{micro} x {replicas} devices, accumulation not seen"


def replicas_of(facts: FactSet) -> int | None:
    """Copies of the model that each take a batch."""
    for name in ("run.world_size", "launch.world_size_seen", "launch.processes"):
        value = facts.value(name)
        if isinstance(value, int):
            n_gpu = facts.value("trainer.n_gpu")
            alone = value == 1 and isinstance(n_gpu, int) and facts.value("trainer.uses_dataparallel") is True
            return n_gpu if alone and isinstance(n_gpu, int) else value
    return None
