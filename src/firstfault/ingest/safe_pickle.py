"""Plain data out of a pickle that nobody vouches for: dictionaries, lists, tuples, strings, numbers, nothing else.

No name is ever looked up, so nothing can be called. What is left are bombs: an index that makes the memo huge, containers by
the million, tuples of tuples as keys. So the operations are read before they are carried out. Those of torch's own writer are
known to a pattern that is faster than the unpickler; any other pickle is read operation by operation.
"""

from __future__ import annotations

import io
import pickle
from typing import NoReturn

from firstfault.ingest.careful_pickle import check_operations
from firstfault.ingest.pickle_limits import MAX_CONTAINERS, MAX_PICKLE_BYTES, UnsafePickleError
from firstfault.lazy_pattern import lazy_pattern

MAX_LOOSE_TUPLES = 512

_STOP, _STRING = 0x2E, 0x58
_TUPLE = 0x86
_PUTS = (b"q", b"r", b"\x94")
_CONTAINERS = (b"}", b"]", b")", b"(", b"\x85", b"\x86", b"\x87")
# A tuple stands behind two strings of the memo and does not enter the memo itself: no tuple holds another.
_PAIR = rb"\x86(?![qr\x94])"
_LONG = rb"\x8a(?:\x00|%b)" % b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(8, 0, -1))
_VALUE = rb"N|\x88|\x89|K.|M..|J.{4}|" + _LONG
# One round takes a key and its value: rounds cost more than what stands in them.
_ITEM = rb"h.(?:h.(?:%b|h.%b)?+|%b|\](?:\((?:h.e|\]\((?:M..|K.|J.{4})*+e)?+)?+)?+" % (_PAIR, _PAIR, _VALUE)
_RUN = lazy_pattern(rb"(?s)(?:%b|[(\]}eusa]++|%b|q.|r..[\x00-\x0f]\x00|j.{4}(?:j.{4}%b)?+|G.{8})*+" % (_ITEM, _VALUE, _PAIR))
_DAMAGED = (
    *(pickle.UnpicklingError, EOFError, IndexError, KeyError, ValueError, TypeError, AttributeError),
    *(OverflowError, MemoryError, RecursionError),
)


class _PlainUnpickler(pickle.Unpickler):
    """Refuses every name and every persistent object."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise UnsafePickleError("holds the name of something to import")

    def persistent_load(self, pid: object) -> NoReturn:
        raise UnsafePickleError("refers to something outside the file")


def load_plain(data: bytes) -> object:
    """The object that `data` holds, built of plain data only. UnsafePickleError if it is damaged or holds anything else.

    Objects of the memo are shared: what walks the result must not follow it to any depth.
    """
    if len(data) > MAX_PICKLE_BYTES:
        raise UnsafePickleError(f"is larger than {MAX_PICKLE_BYTES >> 20} MiB")
    if len(data) > MAX_CONTAINERS and sum(map(data.count, _CONTAINERS)) > MAX_CONTAINERS:
        raise UnsafePickleError("holds too many containers")
    if not _is_written_by_torch(data):
        check_operations(data)
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except UnsafePickleError:
        raise
    except _DAMAGED as error:
        raise UnsafePickleError(f"is damaged ({type(error).__name__})") from error


def _is_written_by_torch(data: bytes) -> bool:
    """True if the pattern knows all operations up to the end, and they are harmless."""
    if not data.startswith(b"\x80\x02"):
        return False
    match, size, loose = _RUN.match, len(data), 0
    at = 2
    while at < size:
        found = match(data, at)
        at = found.end() if found else at
        operation = data[at] if at < size else -1
        if operation == _STRING:
            at += 5 + int.from_bytes(data[at + 1 : at + 5], "little")
        elif operation == _TUPLE and loose < MAX_LOOSE_TUPLES and data[at + 1 : at + 2] not in _PUTS:
            loose += 1
            at += 1
        else:
            return operation == _STOP
    return False
