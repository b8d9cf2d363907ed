"""The user's model by his own transformers, from its configuration alone, and the inputs of one micro-batch."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from .kernels import FLASH, offer_flash

_KINDS = {
    "causal-lm": "AutoModelForCausalLM",
    "classification": "AutoModelForSequenceClassification",
    "masked-lm": "AutoModelForMaskedLM",
    "seq2seq-lm": "AutoModelForSeq2SeqLM",
}
_FAMILIES = {
    "vit": "AutoModelForImageClassification",
    "t5": "AutoModelForSeq2SeqLM",
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "distilbert", "deberta-v2"), "AutoModelForSequenceClassification"),
}
_OTHERS = ("AutoModelForMaskedLM", "AutoModelForSeq2SeqLM", "AutoModelForImageClassification")


def build(plan: dict[str, Any], device: str, notes: list[str]) -> Any:
    """The model on `device`, in its type, ready to train. Code that comes with a model is never run."""
    told = dict(plan["config"])
    family = told.pop("model_type", None)
    if not family:
        raise ValueError("the configuration has no model_type")
    for name in ("auto_map", "torch_dtype", "dtype", "use_cache", "quantization_config"):
        told.pop(name, None)
    config = transformers.AutoConfig.for_model(family, **told)
    config.use_cache = False
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    maker = _maker(plan.get("head"), config, told.get("architectures") or [])
    dtype = getattr(torch, plan["weights"])
    attention = "eager" if plan["attention"] == "eager" else "sdpa"
    if plan["attention"] == "flash_attention_2" and offer_flash():
        attention = FLASH
    with torch.device(device):
        try:
            model = _made(maker, config, attention)
        except (ValueError, ImportError) as error:
            if attention == "eager":
                raise
            notes.append(f"attention is eager: {str(error).splitlines()[0].partition('. ')[0][:200]}")
            model = _made(maker, config, "eager")
    # Buffers such as rotary frequencies stay as they are made.
    for one in model.parameters():
        one.data = one.data.to(dtype)
    model.train()
    if plan["checkpointing"]:
        model.gradient_checkpointing_enable()
    return model


def _maker(head: Any, config: Any, architectures: list[str]) -> Any:
    """The class that is named, else the usual one of the family, else the first kind that the family has."""
    if head:
        return getattr(transformers, _KINDS[head])
    own = getattr(transformers, architectures[0], None) if architectures else None
    if own is not None and hasattr(own, "_from_config"):
        return own
    if config.model_type in _FAMILIES:
        return getattr(transformers, _FAMILIES[config.model_type])
    makers = [getattr(transformers, name) for name in ("AutoModelForCausalLM", *_OTHERS)]
    return next((one for one in makers if type(config) in one._model_mapping), makers[0])


def _made(maker: Any, config: Any, attention: str) -> Any:
    if hasattr(maker, "from_config"):
        return maker.from_config(config, attn_implementation=attention)
    return maker._from_config(config, attn_implementation=attention)


def inputs_of(model: Any, plan: dict[str, Any], device: str, batch: int, length: int) -> dict[str, Any]:
    """Tokens (or pixels), mask and labels as the Trainer's collators give them."""
    config = model.config
    if getattr(config, "image_size", None) and hasattr(config, "patch_size"):
        size = int(config.image_size)
        pixels = torch.zeros(batch, int(getattr(config, "num_channels", 3)), size, size, device=device)
        first = next(model.parameters())
        labels = torch.zeros(batch, dtype=torch.int64, device=device)
        return {"pixel_values": pixels.to(first.dtype) if plan.get("autocast") is None else pixels, "labels": labels}
    tokens = torch.zeros(batch, length, dtype=torch.int64, device=device)
    mask = torch.ones(batch, length, dtype=torch.int64, device=device)
    if plan["padded"] and device != "meta":
        mask[:, -1] = 0
    shape = (batch,) if "Classification" in type(model).__name__ else (batch, length)
    return {"input_ids": tokens, "attention_mask": mask, "labels": torch.zeros(shape, dtype=torch.int64, device=device)}


def make_optimizer(parameters: list[Any], told: dict[str, Any]) -> Any:
    """torch's (for Adafactor transformers') optimizer in the implementation of the plan; None for none."""
    name, implementation = told["name"], told["implementation"]
    if name == "none":
        return None
    if name == "adafactor":
        from transformers.optimization import Adafactor

        return Adafactor(parameters, lr=1e-3, scale_parameter=False, relative_step=False)
    if name in ("sgd", "sgd_momentum"):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9 if name == "sgd_momentum" else 0.0, foreach=True)
    if name != "adamw":
        raise ValueError(f"the optimizer {name} is not traced")
    if implementation == "fused":
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    return torch.optim.AdamW(parameters, lr=1e-3, foreach=implementation == "foreach")
