"""Passwords: hashed with argon2id, checked in the same time whether the account exists or not."""

from __future__ import annotations

from functools import lru_cache
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST, LONGEST = 10, 1_000
AT_ONCE = 2
"""Each hash takes 64 MiB and several threads: many who sign in at once must wait for each other."""
_hasher = PasswordHasher()
_turn = BoundedSemaphore(AT_ONCE)


def hash_password(password: str) -> str:
    """The hash to keep. ValueError for a password that is too short or too long."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(f"a password has {SHORTEST} to {LONGEST:,} characters")
    with _turn:
        return _hasher.hash(password)


def is_password(kept: str | None, password: str) -> bool:
    """Whether it is the password with that hash; None (there is no account) takes as long."""
    try:
        with _turn:
            return _hasher.verify(kept if kept is not None else _nobodys(), password[:LONGEST]) and kept is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(kept: str) -> bool:
    """Whether the hash was made with weaker settings than today's."""
    return _hasher.check_needs_rehash(kept)


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _hasher.hash("the password of no account at all")
