"""What the script of a plan does that does not fit its start: as far as the text shows it, read and never run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from firstfault.launch.plan_facts import fact
from firstfault.launch.plan_script import Script
from firstfault.launch.request import Request
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.fact import Fact
from firstfault.model.plan import Plan
from firstfault.model.span import SourceSpan

_DISTRIBUTED = "ParallelMode.DISTRIBUTED"
_FSDP = lazy_pattern(r"^[^#\n]*[(,\s]fsdp\s*=\s*(?:\[\s*)?[\"'](?P<value>[\w ]+)[\"']", re.M, needs="fsdp")
_FIXED = lazy_pattern(
    r"^[^#\n]*\bdevice_map\s*=\s*\{\s*[\"']{2}\s*:\s*(?P<value>\d+|[\"']cuda(?::\d+)?[\"'])\s*\}", re.M, needs="device_map"
)
_QUANTIZED = lazy_pattern(r"^[^#\n]*\bload_in_(?:8|4)bit\s*=\s*True", re.M, needs="load_in_")
_METRICS = lazy_pattern(r"^[^#\n]*\bcompute_metrics\s*=\s*(?!None\b)[A-Za-z_]", re.M, needs="compute_metrics")
_MOVED = lazy_pattern(r"\b(?:eval_accumulation_steps|preprocess_logits_for_metrics|batch_eval_metrics|prediction_loss_only)\b")
_WHOLE_VOCABULARY = lazy_pattern(
    r"\b\w*(?:ForCausalLM|ForMaskedLM|ForConditionalGeneration|Seq2SeqLM|LMHeadModel|SFTTrainer)\b"
)
_HALF = lazy_pattern(
    r"^[^#\n]*(?:\b(?:torch_)?dtype\s*=\s*(?:torch\.(?:float16|half)\b|[\"']float16[\"'])|\bmodel\.half\(\))", re.M
)
_FP16 = lazy_pattern(r"^[^#\n]*[(,\s]fp16\s*=\s*True\b|^[^#\n]*mixed_precision\s*=\s*[\"']fp16[\"']", re.M, needs="fp16")
_ADAPTERS = lazy_pattern(r"\b(?:get_peft_model|LoraConfig|peft_config|prepare_model_for_kbit_training)\b")
_NOTEBOOK = lazy_pattern(r"^[^#\n]*\b(?:notebook_launcher|debug_launcher)\s*\(", re.M, needs="_launcher")
_TOUCHES_CUDA = lazy_pattern(
    r"^(?![ \t#]|def |class |from |import )[^#\n]*(?:\bAccelerator\(|\bTrainingArguments\(|\.cuda\(|\.to\(\s*[\"']cuda"
    r"|\btorch\.cuda\.(?:init|set_device|current_device|get_device_name|mem_get_info|empty_cache)\()",
    re.M,
)
_LAYER = re.compile(r"(?P<family>[A-Z][A-Za-z0-9]*?)(?:Decoder|Encoder)?(?:Layer|Block)\Z")
_MODEL = lazy_pattern(r"\b(?P<family>(?!Auto)[A-Z][A-Za-z0-9]*?)(?:For[A-Z][A-Za-z0-9]+|LMHeadModel|Model)\.from_pretrained\(")


def code_facts(plan: Plan, inner: Request, script: Script) -> Iterator[Fact]:
    """Facts of the script's text in this start; nothing where the text is not at hand."""
    text = script.text
    if not text:
        return
    first = plan.rank0
    asked = _FSDP.search(text)
    if asked and first is not None and first.parallel_mode not in (None, _DISTRIBUTED):
        yield _shown("fsdp.not_distributed", True, script, asked)
    if plan.starter in ("torchelastic", "deepspeed") and (plan.world_size or 0) > 1:
        fixed = _FIXED.search(text)
        if fixed and _QUANTIZED.search(text):
            yield _shown("plan.fixed_device", fixed["value"].strip("\"'"), script, fixed)
    if script.framework == "transformers":
        yield from _trainer(plan, inner, script, text)
    yield from _before_the_fork(script, text)
    yield from _wrapped(plan, script, text)


def _trainer(plan: Plan, inner: Request, script: Script, text: str) -> Iterator[Fact]:
    metrics = _METRICS.search(text)
    given = any(word.startswith("--eval_accumulation_steps") for word in script.words)
    if metrics and not given and not _MOVED.search(text) and _WHOLE_VOCABULARY.search(text):
        yield _shown("plan.logits_kept", True, script, metrics)
    half = _HALF.search(text)
    precision = plan.env_set.get("ACCELERATE_MIXED_PRECISION", inner.variable("ACCELERATE_MIXED_PRECISION"))
    if half and not _ADAPTERS.search(text) and (precision == "fp16" or "--fp16" in script.words or _FP16.search(text)):
        yield _shown("plan.half_weights", True, script, half)


def _before_the_fork(script: Script, text: str) -> Iterator[Fact]:
    """CUDA at the left margin in front of a call that forks."""
    call = _NOTEBOOK.search(text)
    touched = _TOUCHES_CUDA.search(text) if call else None
    if call and touched and touched.start() < call.end():
        yield _shown("plan.cuda_before_fork", touched[0].strip()[:120], script, touched)


def _wrapped(plan: Plan, script: Script, text: str) -> Iterator[Fact]:
    """A layer class of another family of models than the one that the script loads by its class."""
    asked = plan.env_set.get("FSDP_TRANSFORMER_CLS_TO_WRAP", "")
    families = {found["family"]: found for found in _MODEL.finditer(text)}
    layers = [found["family"] for name in asked.split(",") if (found := _LAYER.match(name.strip())) is not None]
    if not layers or len(families) != 1:
        return
    family, found = next(iter(families.items()))
    if not any(layer.startswith(family) or family.startswith(layer) for layer in layers):
        yield _shown("plan.wrap_class_foreign", asked, script, found)


def _shown(name: str, value: bool | str, script: Script, found: re.Match[str]) -> Fact:
    """The fact with the line of the script that shows it."""
    text = found.string
    offset = found.start() + len(found[0]) - len(found[0].lstrip("\n"))
    span = SourceSpan(script.name, text.count("\n", 0, offset) + 1, len(text[:offset].encode()))
    return fact(name, value, script.name, (span,))
