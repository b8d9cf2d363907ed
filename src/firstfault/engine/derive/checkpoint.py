"""Whether a checkpoint was being read or written, what kind of file it is, and what the reader's error says of its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.frames import is_library, library_path
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.model.event import Frame
    from firstfault.model.fact import FactSet

PRODUCES = (
    "ckpt.operation",
    "ckpt.format",
    "ckpt.file_complete",
    "ckpt.first_bytes",
    "ckpt.writer_failed",
    "ckpt.full_state_dict",
)
_FULL_FRAMES = frozenset({"_full_pre_state_dict_hook", "_full_post_state_dict_hook"})
_SHARDED_FRAMES = frozenset({"_sharded_pre_state_dict_hook", "_sharded_post_state_dict_hook"})
_STATE_DICT_KEYS = frozenset({"fsdp_config.fsdp_state_dict_type", "--fsdp_state_dict_type"})
_STATE_DICTS = {"FULL_STATE_DICT": True, "SHARDED_STATE_DICT": False}

_SITES = {"ckpt_load": "load", "ckpt_save": "save"}
_WRITER_EVENTS = frozenset({"ckpt.write_failed", "ckpt.shared_tensors", "ckpt.meta_parameters"})
_READER_EVENTS = frozenset(
    {
        "ckpt.keys_mismatch",
        "ckpt.load_state_dict_failed",
        "ckpt.size_mismatch",
        "ckpt.truncated",
        "ckpt.wrong_file_type",
        "ckpt.weights_only_refused",
        "ckpt.version_block",
        "ckpt.param_groups_mismatch",
        "ckpt.none_found",
        "ckpt.zero_world_size",
    }
)
_LIBRARIES = ("torch/", "transformers/", "accelerate/", "deepspeed/", "lightning/", "pytorch_lightning/", "megatron/")
_LOADS = lazy_pattern(r"_load_optimizer_and_scheduler|_load_rng_state|load_state|load_from_json")
_SAVES = lazy_pattern(r"_save_optimizer_and_scheduler|save_state|save_model|save_to_json")
# Plain in any library.
_LOADS_CHECKPOINT = lazy_pattern(r"_*(?:load|resume|restore)(?:_from)?_checkpoint")
_SAVES_CHECKPOINT = lazy_pattern(r"_*(?:save|write)_checkpoint")
# The code of a script that opens a file of a checkpoint says in its own words what for.
_WORDS = (("load", lazy_pattern(r"(?:load|resume|restore)")), ("save", lazy_pattern(r"(?:save|dump|write)")))
_NO_SITE = frozenset({None, "user"})
_FORMATS = (
    ("dcp", "torch/distributed/checkpoint/"),
    ("safetensors", "safetensors/"),
    ("torch", "torch/serialization.py"),
)
_SUFFIXES = {
    ".safetensors": "safetensors",
    ".distcp": "dcp",
    ".metadata": "dcp",
    ".json": "json",
    ".pt": "torch",
    ".pth": "torch",
    ".bin": "torch",
    ".ckpt": "torch",
}
_ZERO_FILES = ("zero_pp_rank_", "_optim_states.pt", "bf16_zero_")
_TYPES = {"SafetensorError": "safetensors", "CheckpointException": "dcp", "JSONDecodeError": "json"}
_FIRST = {"<": "html", "v": "lfs", "{": "text", "[": "text", "#": "text", "\\n": "text", "\\r": "text"}
_OPERAND = "ckpt.refused_operand"
_MESSAGE_BYTES = 4096
_CUT_HEADER = ("MetadataIncompleteBuffer", "incomplete metadata")


def derive(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """Facts of the failing checkpoint, from the exception's frames, type and message; nothing of a run that touched none."""
    if scope.event is None:
        return
    operation = _operation(scope, facts)
    saves = operation == "save" or facts.value("fault.stage") == "save"
    yield from _full_state_dict(scope, saves=saves)
    if operation is not None:
        yield _fact(scope, "ckpt.operation", operation, "frames and message")
    if operation == "load" or scope.attribution.fault_class == "checkpoint_error":
        yield from _bytes(scope)
        yield from _writer(scope)
    if operation in {"load", "save"}:
        kind = _format(scope, facts)
        if kind is not None:
            yield _fact(scope, "ckpt.format", kind, "frames and the file's name")
        block = scope.block
        if operation == "load" and block is not None and block.type.endswith("JSONDecodeError"):
            yield _fact(scope, "ckpt.file_complete", value=False, origin="a state file that is no JSON")


def _full_state_dict(scope: Scope, *, saves: bool) -> Iterator[Fact]:
    """What the frames of FSDP gather, else what its configuration asks for while a checkpoint is written."""
    name = "ckpt.full_state_dict"
    for frame in reversed(scope.frames):
        if frame.function in _FULL_FRAMES | _SHARDED_FRAMES and is_library(frame.path):
            full = frame.function in _FULL_FRAMES
            yield Fact(name=name, value=full, origin=f"frame {frame.function}", spans=(frame.span,))
            return
    found = {str(one.value): one for one in scope.settings() if one.key in _STATE_DICT_KEYS}
    value = _STATE_DICTS.get(next(iter(found))) if saves and len(found) == 1 else None
    if value is not None:
        setting = next(iter(found.values()))
        yield Fact(name=name, value=value, origin=setting.key, spans=(setting.span,))


def _fact(scope: Scope, name: str, value: str | bool, origin: str) -> Fact:
    spans = (scope.event.span,) if scope.event is not None else ()
    return Fact(name=name, value=value, origin=origin, spans=spans, basis="derived")


def _operation(scope: Scope, facts: FactSet) -> str | None:
    names = {event.name for event in scope.on_the_line}
    if names & _WRITER_EVENTS:
        return "save"
    site = facts.value("exc.site")
    if isinstance(site, str) and site in _SITES:
        return _SITES[site]
    if names & _READER_EVENTS:
        return "load"
    if site in _NO_SITE:
        found = next((found for frame in reversed(scope.frames) if (found := _by_library(frame))), None)
        if found is None and facts.value("exc.path_role") == "checkpoint":
            found = next((found for frame in reversed(scope.frames) if (found := _by_words(frame))), None)
        if found is not None:
            return found
    return "none" if site is not None and facts.value("exc.path_role") != "checkpoint" else None


def _by_library(frame: Frame) -> str | None:
    if not is_library(frame.path):
        return None
    known = library_path(frame.path).startswith(_LIBRARIES)
    if _LOADS_CHECKPOINT.match(frame.function) or (known and _LOADS.match(frame.function)):
        return "load"
    saves = _SAVES_CHECKPOINT.match(frame.function) or (known and _SAVES.match(frame.function))
    return "save" if saves else None


def _by_words(frame: Frame) -> str | None:
    return next((means for means, words in _WORDS if words.search(frame.function) or words.search(frame.code)), None)


def _format(scope: Scope, facts: FactSet) -> str | None:
    block = scope.block
    kind = _TYPES.get(block.type.rpartition(".")[2]) if block is not None else None
    path = facts.value("exc.path")
    if kind is not None:
        return kind
    name = path.rpartition("/")[2] if isinstance(path, str) else ""
    if name.startswith(_ZERO_FILES) or name.endswith(_ZERO_FILES):
        return "zero"
    for frame in reversed(scope.frames):
        found = next((means for means, part in _FORMATS if library_path(frame.path).startswith(part)), None)
        if found is not None:
            return found
    return next((means for suffix, means in _SUFFIXES.items() if name.endswith(suffix)), None)


def _bytes(scope: Scope) -> Iterator[Fact]:
    """What the file begins with, where the reader names the byte that it could not read or the header that it could."""
    for event in scope.on_the_line:
        key = event.captures.get("key")
        if event.name == "ckpt.wrong_file_type" and isinstance(key, str):
            yield _fact(scope, "ckpt.first_bytes", _FIRST.get(key, "unknown"), f"the first byte is {key!r}")
            return
        error = event.captures.get("error")
        if event.name == "ckpt.truncated" and isinstance(error, str) and error.startswith(_CUT_HEADER):
            yield _fact(scope, "ckpt.first_bytes", "header", "its header was read")
            return
    yield from _operand(scope)


def _operand(scope: Scope) -> Iterator[Fact]:
    """The byte that the safe unpickler refused; it stands some lines below the exception's own line."""
    event = scope.event
    if event is None:
        return
    for other in scope.events():
        behind = other.span.offset - event.span.offset
        if other.name == _OPERAND and other.source_id == event.source_id and 0 <= behind <= _MESSAGE_BYTES:
            first = chr(int(str(other.captures.get("operand", "0"))))
            yield _fact(scope, "ckpt.first_bytes", _FIRST.get(first, "unknown"), f"the refused byte is {first!r}")
            return


def _writer(scope: Scope) -> Iterator[Fact]:
    """True if an earlier attempt failed while it wrote a file."""
    if scope.attempt is None:
        return
    for event in scope.aligned.events:
        earlier = event.place.attempt is not None and event.place.attempt < scope.attempt
        if earlier and not event.quoted and (event.name in _WRITER_EVENTS or event.fault_class == "storage_errno"):
            origin = f"attempt {event.place.attempt}"
            yield Fact(name="ckpt.writer_failed", value=True, origin=origin, spans=(event.span,), basis="derived")
            return
