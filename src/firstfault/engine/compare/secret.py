"""Values that are never shown: whether they are alike is told, they themselves are not."""

from __future__ import annotations

import re

from firstfault.lazy_pattern import lazy_pattern

# Not of tokenizers, counts of tokens, or authors.
_NAME = r"(?:TOKEN(?!I|S)|SECRET|PASSW|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|AUTH(?!OR))"
_SECRET = lazy_pattern(_NAME, re.IGNORECASE)
_GIVEN = lazy_pattern(r"(?P<name>[\w-]{0,80}" + _NAME + r"[\w-]{0,80}(?:=|\s+))(?P<value>(?!-)[^\s]{1,2000})", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """True for the name of a variable or option that holds a secret."""
    return bool(_SECRET.search(name))


def without_secrets(command: str) -> str:
    """A command with the values of secret variables and options left out."""
    return _GIVEN.sub(r"\g<name>***", command)
