"""Configurations of popular models, bundled; a file of the user otherwise."""

from __future__ import annotations

from typing import Any

from firstfault.errors import UnreadableInputError, UsageError

MAX_BYTES = 4 << 20
_TUNED = {"instruct", "chat", "it", "hf", "base", "pt", ""}
"""What names of tuned models add to those of their base: the shape is the same."""

_SIZES = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "intermediate": "intermediate_size",
    "vocab": "vocab_size",
    "type": "model_type",
}
"""How sizes are told without a file, and their names in a config.json."""


def bundled() -> dict[str, dict[str, Any]]:
    """The bundled configurations by repository name (sizes as in each model's public config.json)."""
    import msgspec

    with open(__file__.rpartition("models.py")[0] + "models.json", "rb") as file:  # noqa: PTH123
        return msgspec.json.decode(file.read(), type=dict[str, dict[str, Any]])


def find_model(name: str) -> tuple[str, dict[str, Any]]:
    """Name and configuration of a bundled model, by its whole name or the part behind the slash, whatever the case."""
    known = bundled()
    wanted = plain(name)
    for full, config in known.items():
        if wanted in (plain(full), plain(full.rpartition("/")[2])):
            return full, config
    words = _words(name) - _TUNED
    close = [full for full in known if words and words <= _words(full)]
    # `Mistral-7B-Instruct-v0.2` has the shape of its base model; of several the one with the fewest other words.
    if any(one.isdigit() for one in name):
        fewest = min((len(_words(full)) for full in close), default=0)
        close = [full for full in close if len(_words(full)) == fewest]
    close = close or [full for full in known if wanted and wanted in plain(full)]
    if len(close) == 1:
        return close[0], known[close[0]]
    some = ", ".join(sorted(close or known)[:8])
    hint = f"Among the bundled ones: {some} ... or give its config.json."
    raise UsageError(f"unknown model {name!r}", where="--model", hint=hint)


def _told(text: str) -> dict[str, Any]:
    """Sizes as a configuration; the MLP is four times as wide as the hidden state unless told."""
    config: dict[str, Any] = {}
    for part in text.split(","):
        short, _, value = part.strip().partition("=")
        if short not in _SIZES or not ((value.isascii() and value.isdigit()) or short == "type") or len(value) > 32:
            raise UsageError(f"no size of a model: {part.strip()!r}", where="--model", hint=f"known: {', '.join(_SIZES)}")
        config[_SIZES[short]] = value if short == "type" else int(value)
    if missing := [short for short in ("layers", "hidden", "heads", "vocab") if _SIZES[short] not in config]:
        raise UsageError(f"sizes lack {', '.join(missing)}", where="--model")
    return {"intermediate_size": 4 * config["hidden_size"], "tie_word_embeddings": False} | config


def _words(name: str) -> set[str]:
    return set(name.lower().rpartition("/")[2].replace("_", "-").replace(" ", "-").split("-"))


def plain(name: str) -> str:
    """A name without case, spaces and signs, and without the endings that only say which file format it is."""
    text = "".join(one for one in name.lower() if one.isalnum())
    return text.removesuffix("hf")


def load_model(name: str) -> tuple[str, dict[str, Any]]:
    """A bundled model, the configuration in a file or folder of that path, or the sizes: `layers=24,hidden=2048,...`."""
    import os

    if "=" in name and not os.path.exists(name):  # noqa: PTH110
        return name, _told(name)

    path = os.path.join(name, "config.json") if os.path.isdir(name) else name  # noqa: PTH112,PTH118
    if not (path.endswith(".json") or os.path.isfile(path)):  # noqa: PTH113
        return find_model(name)
    import msgspec

    try:
        with open(path, "rb") as file:  # noqa: PTH123
            config = msgspec.json.decode(file.read(MAX_BYTES))
    except (OSError, msgspec.DecodeError) as error:
        raise UnreadableInputError(f"not a model configuration: {error}", where=path) from error
    if not isinstance(config, dict):
        raise UnreadableInputError("not a model configuration: no keys at the top", where=path)
    return str(config.get("_name_or_path") or path), config
