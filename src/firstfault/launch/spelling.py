"""The known word that a misspelt one was meant to be."""

from __future__ import annotations

from collections.abc import Collection

ALIKE = 0.88
"""Share of letters in common order: one wrong letter in a word of ten, two in one of twenty."""


def nearest(word: str, known: Collection[str]) -> str | None:
    """The known word that is nearest to one that is not among them; None if none is near."""
    import difflib

    found = difflib.get_close_matches(word[:200], sorted(known), n=1, cutoff=ALIKE)
    return found[0] if found else None


_TYPES = {
    "DDP": "MULTI_GPU", "DISTRIBUTED": "MULTI_GPU", "MULTIGPU": "MULTI_GPU", "GPU": "MULTI_GPU", "NCCL": "MULTI_GPU",
    "MULTI_GPUS": "MULTI_GPU", "DATA_PARALLEL": "MULTI_GPU", "DISTRIBUTED_DATA_PARALLEL": "MULTI_GPU", "FSDP2": "FSDP",
    "FSDP1": "FSDP", "ZERO": "DEEPSPEED", "ZERO3": "DEEPSPEED", "ZERO2": "DEEPSPEED", "MEGATRON": "MEGATRON_LM", "TPU": "XLA",
    "NONE": "NO", "SINGLE": "NO", "SINGLE_GPU": "NO", "CPU": "MULTI_CPU", "MULTICPU": "MULTI_CPU",
}  # fmt: skip
_KNOWN_TYPES = ("NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_XPU", "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM")


def distributed_type_meant(word: str) -> str | None:
    """The `distributed_type` of accelerate that a refused one was meant to be; None if none is near."""
    plain = word.strip().upper().replace("-", "_").replace(" ", "_")
    plain = plain.removeprefix("DISTRIBUTEDTYPE.")
    return plain if plain in _KNOWN_TYPES else _TYPES.get(plain) or nearest(plain, _KNOWN_TYPES)
