"""Regular expressions that cost nothing until a text is held against them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, AnyStr, Generic, cast

_METHODS = ("match", "search", "fullmatch", "sub", "split", "findall", "finditer")
_SEEKING = ("match", "search", "fullmatch", "findall", "finditer")
_NOTHING: dict[str, Callable[[], Iterable[Any]]] = {"findall": list, "finditer": lambda: iter(())}


def lazy_pattern(pattern: AnyStr, flags: int = 0, *, needs: AnyStr | tuple[AnyStr, ...] | None = None) -> re.Pattern[AnyStr]:
    """The pattern that `re.compile` gives, compiled when it is first used.

    Several hundred patterns read one kind of line or another, and a short paste meets a few dozen of them. `needs` is a text
    that stands in whatever the pattern finds, or several, one of which does (in lower case for a pattern that ignores case):
    until a line has it, the pattern is not even compiled.
    """
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags, (needs,) if isinstance(needs, str | bytes) else needs))


class _LazyPattern(Generic[AnyStr]):
    """Stands for a compiled pattern; after the first use its methods are those of the pattern itself, at their speed."""

    __slots__ = ("flags", "needs", "pattern", *_METHODS)

    def __init__(self, pattern: AnyStr, flags: int, needs: tuple[AnyStr, ...] | None) -> None:
        self.pattern: AnyStr = pattern
        self.flags = flags
        self.needs: tuple[AnyStr, ...] | None = needs
        if needs is not None:
            for method in _SEEKING:
                setattr(self, method, self._held_back(method, needs))

    def __getattr__(self, name: str) -> Any:
        # Called only while the slot is empty.
        if name not in _METHODS:
            raise AttributeError(name)
        return getattr(self._compiled(), name)

    def _compiled(self) -> re.Pattern[AnyStr]:
        compiled = re.compile(self.pattern, self.flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return compiled

    def _held_back(self, method: str, needs: tuple[AnyStr, ...]) -> Callable[..., Any]:
        folds = bool(self.flags & re.IGNORECASE)

        def seek(text: AnyStr, *bounds: int) -> Any:
            held = text.lower() if folds else text
            for need in needs:
                if need in held:
                    return getattr(self._compiled(), method)(text, *bounds)
            return _NOTHING[method]() if method in _NOTHING else None

        return seek
