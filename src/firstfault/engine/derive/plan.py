"""Whether what runs is what was asked for: processes, precision, devices and modes of the launch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from firstfault.engine.derive.frames import library_path
from firstfault.engine.derive.trained import devices_trained
from firstfault.launch.view import Launch, basename, launches
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from firstfault.engine.derive.scope import Scope
    from firstfault.launch.accelerate import Config
    from firstfault.model.fact import FactSet, FactValue, Setting
    from firstfault.model.span import SourceSpan

PRODUCES = (
    "launch.devices_differ",
    "launch.feature_not_asked",
    "launch.rank_labels_seen",
    "launch.value_conflict",
    "launch.world_size_seen",
    "plan.finding",
)

_FILES = frozenset({"config", "arguments"})
_NOT_ASKED = ("no", "false", "none", "")
_IDS = lazy_pattern(r"\d{1,3}(?:,\d{1,3})*,?\Z")
_ON_THIS_NODE = lazy_pattern(r"localhost:(\d[\d,]*)\Z")
_PROCESS = lazy_pattern(r"gpu\.(\d+)\.process\.(\d+)\Z")
_MODES: dict[str, tuple[tuple[str, ...], str, str]] = {
    # Frames, the stem of events and the word in options and keys that show a mode.
    "FSDP": (
        ("torch/distributed/fsdp/", "torch/distributed/_composable/fsdp/", "accelerate/utils/fsdp_utils.py"),
        "fsdp",
        "fsdp",
    ),
    "DEEPSPEED": (("deepspeed/",), "deepspeed", "deepspeed"),
    "MEGATRON_LM": (("megatron/", "accelerate/utils/megatron_lm.py"), "megatron", "megatron"),
}


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """What the ranks show of the launch, each difference from what was asked for, and whether there is one at all."""
    settings = tuple(scope.settings())
    found = launches(settings, scope.event.span if scope.event else None)
    for fact in (
        _labels(scope),
        _world_size(settings, facts.value("launch.processes") == 1),
        _precision(found, settings, facts),
        _devices(scope, found, settings),
        _mode(scope, found, settings, facts),
    ):
        if fact is not None:
            facts.add(fact)
            yield fact
    yield from _finding(facts)


def _labels(scope: Scope) -> Fact | None:
    """Ranks with progress of their own; a rank without progress lines may train all the same."""
    spans: dict[int, SourceSpan] = {}
    for report in scope.aligned.bundle.reports:
        own = scope.aligned.rank_map.source_place(report).rank
        for sample in report.progress:
            rank = own if sample.rank is None else sample.rank
            if rank is not None and sample.lines and sample.last_span is not None:
                spans.setdefault(rank, sample.last_span)
    if not spans:
        return None
    shown = tuple(spans.values())[:8]
    return _fact("launch.rank_labels_seen", len(spans), "ranks with progress lines", shown)


def _world_size(settings: Sequence[Setting], alone: bool) -> Fact | None:
    """The largest size that a rank prints. Of a size of one nobody knows which group has it."""
    sizes = [
        (setting.value, setting)
        for setting in settings
        if (setting.family, setting.key) == ("printed", "world_size") and isinstance(setting.value, int)
    ]
    size, shown = max(sizes, key=lambda pair: pair[0], default=(0, None))
    trained = devices_trained(settings)
    if trained is not None and (shown is None or size < 2):
        # Of one process the devices are its GPUs, not its world. Ranks that share one model share its batch as well, and a
        # script may ask for that: the number is told, it establishes nothing.
        seen = _fact("launch.world_size_seen", trained.devices, "batch of the Trainer", trained.spans)
        return None if alone else replace(seen, basis="told")
    if shown is None or size < 2:
        return None
    return _fact("launch.world_size_seen", size, "world size in the log", (shown.span,))


def _precision(found: Sequence[Launch], settings: Sequence[Setting], facts: FactSet) -> Fact | None:
    """Mixed precision that the command or its configuration asks for, against the one in force."""
    name = "launch.value_conflict"
    asked: dict[str, Setting] = {}
    for launch in found:
        config = _config_of(launch, settings).settings or {}
        setting = launch.options.get("--mixed_precision") or config.get("mixed_precision")
        if launch.name != "accelerate" or setting is None:
            return None
        asked[str(setting.value).lower()] = setting
    # `no` is what accelerate writes where nobody asked for anything.
    if len(asked) != 1 or next(iter(asked)) in _NOT_ASKED:
        return None
    in_force = _values(settings, "printed", "mixed_precision") or _values(settings, "script", "Accelerator.mixed_precision")
    if len(in_force) != 1:
        return None
    (wanted, setting), (value, shown) = next(iter(asked.items())), next(iter(in_force.items()))
    if wanted != value != "no" and facts.value("fault.class") == "device_oom":
        # Two formats of 16 bits need the same memory: the difference has nothing to do with this failure.
        return None
    origin = f"mixed precision: {wanted} asked for, {value} in force"
    return _fact(name, wanted != value, origin, (setting.span, shown.span))


def _config_of(launch: Launch, settings: Sequence[Setting]) -> Config:
    from firstfault.launch.accelerate import find_config

    return find_config(launch, settings)


def _values(settings: Sequence[Setting], family: str, key: str) -> dict[str, Setting]:
    return {str(one.value).lower(): one for one in settings if (one.family, one.key) == (family, key)}


def _devices(scope: Scope, found: Sequence[Launch], settings: Sequence[Setting]) -> Fact | None:
    """The ids that the command selects, against those that its launcher sets or on which nvidia-smi shows its processes."""
    if len(found) != 1:
        return None
    selected = _selection(found[0], settings)
    if selected is None:
        return None
    ids, setting = selected
    for used, spans, all_of_them in (_set_by_launcher(settings), _in_use(scope, settings)):
        if not used:
            continue
        differs = used != ids if all_of_them else not used <= ids
        origin = f"devices {_listed(ids)} selected, {_listed(used)} in use"
        return _fact("launch.devices_differ", differs, origin, (setting.span, *spans[:8]))
    return None


def _selection(launch: Launch, settings: Sequence[Setting]) -> tuple[frozenset[int], Setting] | None:
    """Ids of the devices that the command itself names."""
    config = _config_of(launch, settings).settings or {}
    included = launch.options.get("--include")
    if launch.name == "deepspeed" and included is not None:
        local = _ON_THIS_NODE.match(str(included.value))
        return (_ids(local[1]), included) if local else None
    ids = launch.options.get("--gpu_ids") or config.get("gpu_ids")
    if launch.name == "accelerate" and ids is not None and ids.value not in (None, "all", ""):
        return (_ids(str(ids.value)), ids) if _IDS.match(str(ids.value)) else None
    own = launch.environment.get("CUDA_VISIBLE_DEVICES")
    if own is None or own.span != launch.launcher.span or not _IDS.match(str(own.value)):
        return None
    return _ids(str(own.value)), own


def _ids(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part)


def _listed(ids: frozenset[int]) -> str:
    return ",".join(map(str, sorted(ids)))


_Used = tuple[frozenset[int], "tuple[SourceSpan, ...]", bool]


def _set_by_launcher(settings: Sequence[Setting]) -> _Used:
    """The devices that DeepSpeed's launcher gives to its workers: all that they will use."""
    found = _values(settings, "printed", "CUDA_VISIBLE_DEVICES")
    if len(found) != 1:
        return frozenset(), (), True
    text, shown = next(iter(found.items()))
    return _ids(text), (shown.span,), True


def _in_use(scope: Scope, settings: Sequence[Setting]) -> _Used:
    """The devices on which nvidia-smi lists processes of this run, where its numbers are CUDA's."""
    names = {setting.value for setting in settings if setting.family == "environment" and _is_name(setting.key)}
    ordered = any(
        (setting.family, setting.key, setting.value) == ("environment", "CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        for setting in settings
    )
    # CUDA counts the fastest device first: with one model only, both count alike.
    if len(names) != 1 and not ordered:
        return frozenset(), (), False
    pids = {event.place.pid for event in scope.aligned.events} | {found.place.pid for found in scope.aligned.exits}
    used: dict[int, SourceSpan] = {}
    for setting in settings:
        process = _PROCESS.match(setting.key) if setting.family == "environment" else None
        if process and int(process[2]) in pids:
            used[int(process[1])] = setting.span
    return frozenset(used), tuple(used.values()), False


def _is_name(key: str) -> bool:
    return key.startswith("gpu.") and key.endswith(".name")


def _mode(scope: Scope, found: Sequence[Launch], settings: Sequence[Setting], facts: FactSet) -> Fact | None:
    """Whether a mode that the run shows was asked for.

    That the command is silent about it proves nothing: many write their default configuration for the very run. It was not
    asked for where only the default configuration has it, and a configuration that the command names leaves it empty.
    """
    if len(found) != 1 or found[0].name != "accelerate":
        return None
    from firstfault.launch.accelerate import type_name

    launch, config = found[0], _config_of(found[0], settings)
    for kind, (_, _, word) in _MODES.items():
        shown = _shown(scope, kind, settings)
        if shown is None:
            continue
        options = (*launch.options.values(), *launch.arguments.values())
        asked = next((one for one in options if word in one.key and not _is_off(one.value)), None)
        chosen = (config.settings or {}).get("distributed_type")
        if asked is None and config.source == "explicit" and chosen is not None and type_name(chosen) == kind:
            asked = chosen
        if asked is not None:
            return _fact("launch.feature_not_asked", False, f"{kind} is asked for", (asked.span, shown))
        own = [one for one in settings if one.family in _FILES and _top(one.key).startswith(word) and _is_named(one, launch)]
        if config.source == "default" and chosen is not None and type_name(chosen) == kind and own and all(map(_off, own)):
            origin = f"{kind} stands in the default configuration only"
            return _fact("launch.feature_not_asked", True, origin, (shown, chosen.span, own[0].span))
    return None


def _shown(scope: Scope, kind: str, settings: Sequence[Setting]) -> SourceSpan | None:
    """Where the run shows the mode: a frame of its code, or a message that only it prints."""
    paths, stem, _ = _MODES[kind]
    for frame in scope.frames:
        if library_path(frame.path).startswith(paths):
            return frame.span
    saved = _values(settings, "printed", "sharded_save").get(stem)
    if saved is not None:
        return saved.span
    return next((event.span for event in scope.events() if event.name.startswith(f"{stem}.")), None)


def _top(key: str) -> str:
    return key.partition(".")[0]


def _is_off(value: object) -> bool:
    return value is None or value is False or str(value).lower() in _NOT_ASKED


def _off(setting: Setting) -> bool:
    return _is_off(setting.value)


def _is_named(setting: Setting, launch: Launch) -> bool:
    """True if the command names the file in which the setting stands."""
    name = basename(setting.span.source)
    return name in {basename(word) for word in launch.launcher.text.replace("=", " ").split()}


def _finding(facts: FactSet) -> Iterator[Fact]:
    """True where processes, devices or values are known to differ from what was asked for."""
    differences = (
        _less(facts, "launch.processes", "launch.processes_asked"),
        _less(facts, "launch.world_size_seen", "launch.processes_asked"),
        _implicit_dataparallel(facts),
        *(_stated(facts, name) for name in ("launch.value_conflict", "launch.devices_differ", "launch.feature_not_asked")),
        _alone(facts),
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


def _stated(facts: FactSet, name: str) -> _Difference | None:
    found = facts.get(name)
    if found is None or found.value is not True:
        return None
    return found.origin, found.spans, found.basis == "told"


def _alone(facts: FactSet) -> _Difference | None:
    labels, size = facts.get("launch.rank_labels_seen"), facts.get("launch.world_size_seen")
    if labels is None or size is None or not isinstance(labels.value, int) or labels.value < 2 or size.value != 1:
        return None
    return f"{labels.value} ranks, each in a world of one", (*labels.spans, *size.spans), "told" in {labels.basis, size.basis}


def _fact(name: str, value: FactValue, origin: str, spans: tuple[SourceSpan, ...]) -> Fact:
    return Fact(name=name, value=value, origin=origin, spans=tuple(dict.fromkeys(spans)), basis="derived")
