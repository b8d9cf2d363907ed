"""Which tensor did not fit: the sizes that the bundle knows of model and batch, against the size of the request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.engine.derive.shapes import printed_shapes
from firstfault.engine.derive.trained import EACH
from firstfault.memory.tensor_match import Match, Sizes, matches, tokens_of
from firstfault.model.fact import Fact
from firstfault.units import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.engine.derive.scope import Scope
    from firstfault.memory.shapes import Architecture
    from firstfault.model.fact import FactSet, FactValue, Setting

_NAMES = frozenset(("model_name_or_path", "base_model", "--model_name_or_path", "--base_model", "--model_id", "model_id"))
_CONFIG = frozenset(("hidden_size", "num_hidden_layers", "num_attention_heads"))
_GPT2_CONFIG = frozenset(("n_embd", "n_layer", "n_head"))
_FAMILIES = frozenset(("config", "arguments"))
_MOST_NAMED = 3


def tensor(scope: Scope, facts: FactSet) -> Iterator[Fact]:
    """`oom.tensor` and its arithmetic where one tensor has the size; the arithmetic alone where it is not sure which."""
    request, event = facts.get("oom.requested_bytes"), scope.event
    if request is None or not isinstance(request.value, int) or event is None:
        return
    consumer, phase = (_text(facts, name) for name in ("oom.consumer", "oom.phase"))
    sizes = _sizes(scope, facts)
    found = matches(request.value, consumer, phase, sizes, printed=request.rounded)
    used = [facts.get(name) for name in ("oom.consumer", "model.vocab_size", "train.seq_len", "train.micro_batch")]
    spans = tuple(dict.fromkeys((event.span, *(span for one in used if one for span in one.spans[:1]))))
    kinds = {one.tensor for one in found}
    if len(kinds) == 1:
        yield Fact(name="oom.tensor", value=kinds.pop(), origin="sizes of model and batch", spans=spans, basis="derived")
    words = _words(found, request.value, consumer, sizes)
    if words:
        yield Fact(name="oom.tensor_arithmetic", value=words, origin="sizes of model and batch", spans=spans, basis="derived")


def _words(found: list[Match], requested: int, consumer: str | None, sizes: Sizes) -> str:
    """The sentence; nothing where no tensor fits and the frames do not name one either."""
    size = format_size(requested)
    if len(found) == 1:
        _, words, arithmetic = found[0]
        return f"The {size} have the size of {words}: {arithmetic}."
    if found:
        listed = "; ".join(f"{words}, {arithmetic}" for _, words, arithmetic in found[:_MOST_NAMED])
        return f"More than one tensor has the size of the {size}: {listed}."
    width = sizes.widths[0]
    if consumer == "lm_head_or_loss" and sizes.vocabulary and len(sizes.widths) == 1 and not (sizes.batch and sizes.length):
        tokens = tokens_of(requested, sizes.vocabulary, width)
        if tokens:
            each = f" ({sizes.batch:,} samples of about {round(tokens / sizes.batch):,})" if sizes.batch > 1 else ""
            return f"As logits, {size} are about {tokens:,} tokens{each} x {sizes.vocabulary:,} entries x {width} bytes."
    return ""


def _sizes(scope: Scope, facts: FactSet) -> Sizes:
    shapes = printed_shapes(scope)
    batch = shapes["last"][0][0] if "last" in shapes else _batch(scope, facts)
    known = Sizes(
        vocabulary=_number(facts, "model.vocab_size"),
        batch=batch,
        length=_number(facts, "train.seq_len"),
        gpus=_number(facts, "trainer.n_gpu"),
        ranks=_number(facts, "run.world_size"),
        bucket=next((one.value for one in scope.settings() if _is_bucket(one) and isinstance(one.value, int)), 0),
        widths=(4,) if _is_fp32(scope, facts) else (4, 2),
    )
    model = _model(scope)
    return known if model is None else _with_model(known, model)


def _with_model(known: Sizes, model: Architecture) -> Sizes:
    layer = max(model.layers, key=lambda one: one.count) if model.layers else None
    matrices = {one.name: (one.out, one.into) for one in layer.matrices.values()} if layer else {}
    roles = layer.matrices if layer else {}
    inner = next((roles[role].out for role in ("up", "gate") if role in roles), 0)
    shapes = {("the embedding", model.vocab, model.hidden), *((name, *shape) for name, shape in matrices.items())}
    # Of matrices of one shape the first stands for all.
    kept: dict[tuple[int, ...], tuple[str, int, int]] = {}
    for name, rows, columns in sorted(shapes):
        kept.setdefault(tuple(sorted((rows, columns))), (name, rows, columns))
    return known._replace(
        vocabulary=known.vocabulary or model.vocab,
        hidden=model.hidden,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        inner=inner,
        layer=layer.numel if layer else 0,
        elements=model.numel,
        matrices=tuple(kept.values()),
    )


def _model(scope: Scope) -> Architecture | None:
    """The model whose configuration is in the bundle, else the bundled one whose exact name the run gives."""
    settings = [one for one in scope.settings() if one.family in _FAMILIES or one.family == "command"]
    files: dict[str, dict[str, object]] = {}
    for one in settings:
        if one.family in _FAMILIES:
            files.setdefault(one.source_id or one.span.source, {}).setdefault(one.key, one.value)
    configs = [file for file in files.values() if file.keys() >= _CONFIG or file.keys() >= _GPT2_CONFIG]
    names = {str(one.value) for one in settings if one.key in _NAMES and one.value}
    if not configs and len(names) != 1:
        return None
    from firstfault.errors import UsageError
    from firstfault.memory.families import read_config
    from firstfault.memory.models import bundled, plain

    try:
        if len(configs) == 1:
            return read_config(configs[0])
        wanted = plain(next(iter(names), ""))
        known = [config for full, config in bundled().items() if wanted in (plain(full), plain(full.rpartition("/")[2]))]
        return read_config(known[0]) if len(known) == 1 and not configs else None
    except UsageError:
        return None


def _batch(scope: Scope, facts: FactSet) -> int:
    """Samples of the failing batch on its device; those of evaluation have a setting of their own."""
    evaluates = facts.value("fault.stage") == "evaluation"
    key = "per_device_eval_batch_size" if evaluates else EACH
    told = {one.value for one in scope.settings() if one.key.removeprefix("--") == key and isinstance(one.value, int)}
    printed = told.pop() if len(told) == 1 else 0
    return int(printed or 0) if evaluates else _number(facts, "train.micro_batch") or int(printed or 0)


def _is_bucket(setting: Setting) -> bool:
    return setting.family == "deepspeed" and setting.key == "zero_optimization.reduce_bucket_size"


def _is_fp32(scope: Scope, facts: FactSet) -> bool:
    """True where the line that asked casts to fp32, or all weights are fp32."""
    innermost = scope.frames[-1] if scope.frames else None
    return facts.value("train.weights_dtype") == "fp32" or (innermost is not None and ".float()" in innermost.code)


def _number(facts: FactSet, name: str) -> int:
    value = facts.value(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _text(facts: FactSet, name: str) -> str | None:
    value: FactValue | None = facts.value(name)
    return value if isinstance(value, str) else None
