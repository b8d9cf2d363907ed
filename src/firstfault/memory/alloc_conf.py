"""The settings of the caching allocator, from the text of PYTORCH_CUDA_ALLOC_CONF."""

from __future__ import annotations

import re

from firstfault.errors import UsageError
from firstfault.memory.plan import Allocator

_PAIR = re.compile(r"([a-z0-9_]+):(\[[^\]]*\]|[^,\[\]]+)(?:,|\Z)")
_WITHOUT_BYTES = frozenset(
    (
        "backend",
        "graph_capture_record_stream_reuse",
        "max_non_split_rounding_mb",
        "pinned_num_register_threads",
        "pinned_use_background_threads",
        "pinned_use_cuda_host_register",
        "release_lock_on_cudamalloc",
        "use_cuda_host_register",
    )
)
"""Settings that change nothing here."""


def read_alloc_conf(text: str) -> Allocator:
    """The settings in `expandable_segments:True,max_split_size_mb:512`; UsageError for what torch would refuse."""
    found: dict[str, str] = {}
    squeezed = "".join(text.split())
    at = 0
    while at < len(squeezed):
        pair = _PAIR.match(squeezed, at)
        if pair is None:
            raise UsageError(f"not a setting of the allocator: {squeezed[at:]}", where="--alloc-conf", hint="NAME:VALUE,...")
        found[pair[1]] = pair[2]
        at = pair.end()
    try:
        split = found.pop("max_split_size_mb", None)
        made = Allocator(
            expandable_segments=found.pop("expandable_segments", "False") == "True",
            max_split_bytes=None if split is None else int(split) << 20,
            garbage_collection_threshold=float(found.pop("garbage_collection_threshold", 0)),
            power_of_two_divisions=_divisions(found.pop("roundup_power2_divisions", "0")),
        )
    except ValueError as error:
        raise UsageError(f"not a value of the allocator: {error}", where="--alloc-conf") from error
    unknown = [name for name in found if name not in _WITHOUT_BYTES]
    if unknown:
        raise UsageError(f"unknown setting of the allocator: {unknown[0]}", where="--alloc-conf")
    return made


def _divisions(text: str) -> int:
    """One number, or of the table `[256:1,512:2,>:4]` the number for the largest sizes."""
    return int(text.strip("[]").rpartition(":")[2] or 0)
