"""The script of a plan: which file it is, what stands behind it on the command line, and what its text shows of its loop."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from firstfault.launch.request import Request
from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.plan import Plan

MAX_SCRIPT_CHARS = 1 << 20

_INTERPRETER = lazy_pattern(r"(?:<python>|(?:.*/)?python[\d.]*)\Z")
_TRAINER = lazy_pattern(
    r"^\s*(?:from|import)\s+(?:transformers|trl)\b(?s:.*)\b(?:\w*Trainer|\w*TrainingArguments|(?:SFT|DPO|GRPO|PPO|ORPO|KTO)Config)\(",
    re.M,
)
_LIGHTNING = lazy_pattern(r"^\s*(?:import|from)\s+(?:lightning|pytorch_lightning)\b", re.M)
_ACCELERATOR = lazy_pattern(r"\bAccelerator\(", needs="Accelerator(")
_TORCH = lazy_pattern(r"\b(?:DistributedDataParallel|FullyShardedDataParallel|fully_shard|init_process_group)\(")
_SPREAD = lazy_pattern(
    r"^[^#\n]*\bdevice_map\s*=\s*[\"'](auto|balanced|balanced_low_0|sequential)[\"']", re.M, needs="device_map"
)
_LOADED = lazy_pattern(r"\.from_pretrained\(")
_NO_MODEL = lazy_pattern(r"(?:Tokenizer\w*|Processor|Config|FeatureExtractor)\.from_pretrained\(")
_OWN_RANKS = lazy_pattern(r"SLURM_(?:PROCID|LOCALID)|OMPI_COMM_WORLD|PMI_RANK|submitit")
_CPU = lazy_pattern(
    r"\b(?:use_cpu|no_cuda|cpu)\s*=\s*True\b|accelerator\s*=\s*[\"']cpu[\"']|torch\.device\(\s*[\"']cpu[\"']\s*\)"
)
_LOCAL_RANK = lazy_pattern(r"local[-_]rank|parse_known_args|HfArgumentParser|add_config_arguments")


class Script(msgspec.Struct, frozen=True):
    """The first word that is run (empty without one), the words behind it, and the file's text, None if not at hand."""

    name: str = ""
    words: tuple[str, ...] = ()
    text: str | None = None

    @property
    def framework(self) -> str | None:
        """Whose training loop the script runs, as far as its own text shows it."""
        text = self.text or ""
        if _TRAINER.search(text):
            return "transformers"
        if _LIGHTNING.search(text):
            return "lightning"
        if _ACCELERATOR.search(text):
            return "accelerate"
        return "torch" if _TORCH.search(text) else None

    @property
    def spread(self) -> str | None:
        """The `device_map` that spreads the model over the GPUs while it is loaded."""
        found = _SPREAD.search(self.text or "")
        return found[1] if found else None

    @property
    def models(self) -> int:
        """How many models it loads."""
        text = self.text or ""
        return len(_LOADED.findall(text)) - len(_NO_MODEL.findall(text))

    @property
    def makes_ranks(self) -> bool:
        """True if it reads the variables of Slurm or MPI itself."""
        return bool(_OWN_RANKS.search(self.text or ""))

    @property
    def refuses_local_rank(self) -> bool:
        """True if it has a parser of its own, and that one knows no `--local_rank`."""
        text = self.text or ""
        return "ArgumentParser(" in text and not _LOCAL_RANK.search(text)

    @property
    def wants_cpu(self) -> bool:
        """True if the script or its own arguments ask for the CPU."""
        words = {word.lstrip("-").replace("-", "_") for word in self.words}
        return bool({"use_cpu", "no_cuda", "cpu"} & words or _CPU.search(self.text or ""))

    def reads(self, option: str) -> bool:
        """True if the text names the option."""
        return option.lstrip("-").replace("-", "_") in (self.text or "").replace("-", "_")


def script_of(plan: Plan, request: Request) -> Script:
    """The script that the plan's processes run."""
    words: Sequence[str] = plan.spawn.argv if plan.spawn else ()
    at = next((place for place, word in enumerate(words) if not word.startswith("-") and not _INTERPRETER.match(word)), None)
    # `python` behind a launcher is what the launcher's own interpreter is told to open.
    doubled = next((place for place, word in enumerate(words) if _INTERPRETER.match(word) and word != "<python>"), None)
    if doubled is not None and plan.tool in ("accelerate", "torchrun", "deepspeed"):
        at = doubled
    if at is None:
        return Script()
    name = words[at]
    text = request.read(name) if name.endswith(".py") else None
    return Script(name, tuple(words[at + 1 :]), None if text is None else text[:MAX_SCRIPT_CHARS])
