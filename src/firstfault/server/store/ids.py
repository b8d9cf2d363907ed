"""Identifiers that cannot be guessed."""

from __future__ import annotations

import secrets

ID_BYTES = 16


def new_id() -> str:
    """128 random bits, for URLs."""
    return secrets.token_urlsafe(ID_BYTES)
