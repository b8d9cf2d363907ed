"""Regular expressions that cost nothing until a text is held against them."""

from __future__ import annotations

import re
from typing import Any, AnyStr, Generic, cast

_METHODS = ("match", "search", "fullmatch", "sub", "split", "findall", "finditer")


def lazy_pattern(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern `re.compile` gives, compiled when one of its methods is first looked up.

    Several hundred patterns read one kind of line or another, and a short paste meets a few dozen of them.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern(Generic[AnyStr]):
    """Stands for a compiled pattern; after the first use its methods are those of the pattern itself, at their speed."""

    __slots__ = ("flags", "pattern", *_METHODS)

    def __init__(self, pattern: AnyStr, flags: int) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        # Called only while the slot is empty.
        if name not in _METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
