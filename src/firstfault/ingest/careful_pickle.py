"""What a pickle would build, found out without building it: for pickles that torch's own writer did not write."""

from __future__ import annotations

from firstfault.ingest.pickle_limits import (
    MAX_CAREFUL_BYTES,
    MAX_DEPTH,
    MAX_MEMO,
    MAX_TUPLE_WEIGHT,
    UnsafePickleError,
)

MAX_LONG_BYTES = 64
# Bytes of the argument of operations that push one plain value.
_VALUES = {"N": 0, "\x88": 0, "\x89": 0, "K": 1, "M": 2, "J": 4, "G": 8}
# Bytes of the length in front of a value of that length.
_SIZED = {"X": 4, "\x8c": 1, "\x8d": 8, "\x8a": 1, "\x8b": 4}
_LONGS = frozenset("\x8a\x8b")
_MARK = (-1, 0)
_PLAIN = (0, 1)


def check_operations(data: bytes) -> None:
    """UnsafePickleError unless every operation builds plain data of bounded depth."""
    if len(data) > MAX_CAREFUL_BYTES:
        raise UnsafePickleError("is too large for a pickle that torch did not write")
    try:
        _Machine(data).run()
    except IndexError as error:
        raise UnsafePickleError("is damaged (ends too early)") from error


class _Machine:
    """Carries out the operations on (depth, weight) in place of objects; -1 is a mark. Weight counts in tuples only."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[tuple[int, int]] = []
        self._memo: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        """All operations up to the end."""
        if self._data[0] != 0x80 or not 2 <= self._data[1] <= 5:
            raise UnsafePickleError("is no pickle of protocol 2 to 5")
        self._at = 2
        while (operation := chr(self._number(1))) != ".":
            if operation in _VALUES:
                self._at += _VALUES[operation]
                self._stack.append(_PLAIN)
            elif operation in _SIZED:
                self._sized(operation)
            elif operation in "]})":
                self._stack.append((1, 1))
            elif operation == "(":
                self._stack.append(_MARK)
            elif not self._memory(operation) and not self._container(operation):
                raise UnsafePickleError(f"does more than build plain data (operation {operation!r})")

    def _number(self, size: int) -> int:
        if self._at + size > len(self._data):
            raise IndexError
        self._at += size
        return int.from_bytes(self._data[self._at - size : self._at], "little")

    def _sized(self, operation: str) -> None:
        size = self._number(_SIZED[operation])
        if self._at + size > len(self._data) or (operation in _LONGS and size > MAX_LONG_BYTES):
            raise UnsafePickleError("is damaged (a value is longer than the file)")
        self._at += size
        self._stack.append(_PLAIN)

    def _memory(self, operation: str) -> bool:
        """True if the operation was one of the memo's."""
        if operation in "qr\x94":
            index = len(self._memo) if operation == "\x94" else self._number(1 if operation == "q" else 4)
            if index > MAX_MEMO:
                raise UnsafePickleError("would make a table larger than the file")
            self._memo[index] = self._stack[-1]
        elif operation in "hj":
            index = self._number(1 if operation == "h" else 4)
            if index not in self._memo:
                raise UnsafePickleError("is damaged (uses what it did not build)")
            self._stack.append(self._memo[index])
        elif operation == "\x95":
            self._at += 8
        else:
            return False
        return True

    def _container(self, operation: str) -> bool:
        """True if the operation fills or makes a container."""
        if operation in "aseu":
            items = self._to_mark() if operation in "eu" else [self._pop() for _ in range(1 if operation == "a" else 2)]
            depth, _ = self._pop()
            self._stack.append((max(depth, _outside(items)), 1))
        elif operation in "ld":
            self._stack.append((_outside(self._to_mark()), 1))
        elif operation in "t\x85\x86\x87":
            items = self._to_mark() if operation == "t" else [self._pop() for _ in range(ord(operation) - 0x84)]
            weight = 1 + sum(weight for _, weight in items)
            if weight > MAX_TUPLE_WEIGHT:
                raise UnsafePickleError("holds tuples of tuples beyond measure")
            self._stack.append((_outside(items), weight))
        else:
            return False
        return True

    def _pop(self) -> tuple[int, int]:
        found = self._stack.pop()
        if found is _MARK:
            raise UnsafePickleError("is damaged (a mark where a value belongs)")
        return found

    def _to_mark(self) -> list[tuple[int, int]]:
        items = []
        while (found := self._stack.pop()) is not _MARK:
            items.append(found)
        return items


def _outside(items: list[tuple[int, int]]) -> int:
    """The depth of a container that holds `items`."""
    depth = 1 + max((depth for depth, _ in items), default=0)
    if depth > MAX_DEPTH:
        raise UnsafePickleError(f"nests deeper than {MAX_DEPTH}")
    return depth
