"""Passwords: hashed with argon2id, checked in the same time whether the account exists or not."""

from __future__ import annotations

from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST, LONGEST = 10, 1_000
_hasher = PasswordHasher()


def hash_password(password: str) -> str:
    """The hash to keep. ValueError for a password that is too short or too long."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise ValueError(f"a password has {SHORTEST} to {LONGEST:,} characters")
    return _hasher.hash(password)


def is_password(kept: str | None, password: str) -> bool:
    """Whether it is the password with that hash; None (there is no account) takes as long."""
    try:
        return _hasher.verify(kept if kept is not None else _nobodys(), password[:LONGEST]) and kept is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(kept: str) -> bool:
    """Whether the hash was made with weaker settings than today's."""
    return _hasher.check_needs_rehash(kept)


@lru_cache(maxsize=1)
def _nobodys() -> str:
    return _hasher.hash("the password of no account at all")
