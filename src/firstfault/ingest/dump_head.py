"""Whether a source is a dump of the flight recorder or of the allocator, and the numbers in its name: asked before reading."""

from __future__ import annotations

import re

from firstfault.lazy_pattern import lazy_pattern

MAX_RANK = 1 << 20

_PICKLED = lazy_pattern(rb"(?s)\x80[\x02-\x05].*?(?:pg_config|pg_status|collective_seq_id|profiling_name|entries)")
_SNAPSHOT = lazy_pattern(
    rb"(?s)\x80[\x02-\x05](?:.{0,40}?segments.{0,40}?[\]\)]|.{0,400}?total_size.{0,400}?(?:allocated_size|stream))"
)
_WRITTEN = lazy_pattern(rb'\s*\{\s*"[a-z_]+"\s*:.*?"(?:pg_config|pg_status|collective_seq_id|nccl_comm_state)"', re.DOTALL)
_NUMBER = lazy_pattern(r"\d{1,7}")
_ENDING = lazy_pattern(r"(?:\.(?:gz|zst|json|pkl|pickle|txt|trace|dump))+$", re.IGNORECASE)


def is_dump(head: bytes) -> bool:
    """True if a source begins as a dump does."""
    # The first byte is asked before any pattern is compiled: most sources are logs.
    if head[:1] == b"\x80":
        return _PICKLED.match(head) is not None
    return head[:64].lstrip(b" \t\r\n\xef\xbb\xbf")[:1] == b"{" and _WRITTEN.match(head) is not None


def is_memory_snapshot(head: bytes) -> bool:
    """True if a source begins as a snapshot of the CUDA allocator does: a dictionary of segments, or a list of them."""
    return head[:1] == b"\x80" and _SNAPSHOT.match(head) is not None


def numbers_of(path: str) -> list[int]:
    """The numbers in the name of a file, the last one first: torch writes the rank behind the prefix."""
    name = _ENDING.sub("", path.replace("\\", "/").rpartition("/")[2])
    return [number for text in reversed(_NUMBER.findall(name)) if (number := int(text)) <= MAX_RANK]
