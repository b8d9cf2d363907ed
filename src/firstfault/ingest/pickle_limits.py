"""How much a pickle may hold, and the error for one that holds more."""

from __future__ import annotations

MAX_PICKLE_BYTES = 32 << 20
MAX_CONTAINERS = 2 << 20
MAX_MEMO = 1 << 20
MAX_DEPTH = 64
MAX_TUPLE_WEIGHT = 4096
"""How many objects a tuple may hold, those in its inner tuples included: a key is hashed through all of them."""
MAX_CAREFUL_BYTES = 4 << 20
"""A pickle that torch did not write is read operation by operation up to this size."""


class UnsafePickleError(ValueError):
    """The pickle is damaged, holds more than plain data, or would take more memory than its size allows."""
