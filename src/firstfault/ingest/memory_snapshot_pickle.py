"""A memory snapshot read as a stream: each entry of a trace and each segment is handed on as soon as it is complete.

The file is a pickle of up to gigabytes. Its operations are carried out here, one by one, and only those that build plain data:
no name is ever looked up. What the pickle's own table of objects would hold is kept small: texts, frames and stacks once each,
for everything else (each entry, list and dictionary) a zero.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from typing import Any, Protocol

from firstfault.ingest.memory_snapshot_frames import Frame, Stack, Stacks
from firstfault.lazy_pattern import lazy_pattern

CHUNK_BYTES = 1 << 20
MARGIN_BYTES = 64 << 10
MAX_MEMO = 64 << 20
MAX_TABLE_BYTES = 48 << 20
MAX_TEXT_BYTES = 4_096
MAX_WAITING = 400_000
MAX_HELD = 4 << 20
"""Items that one entry or segment may hold, and operands that may wait for their operation."""
MAX_TUPLE = 8
MAX_RUNS = 20_000
MAX_RUN_BYTES = 16 << 20
MAX_NUMBER_BYTES = 16

_UINT32, _INT32, _FLOAT = struct.Struct("<I"), struct.Struct("<i"), struct.Struct(">d")
_RUN = lazy_pattern(rb"(?s)((?:h.|j....)++)e")
_SIZED = {0x58: 4, 0x8C: 1, 0x8D: 8, 0x42: 4, 0x43: 1, 0x8E: 8}
_TEXTS = frozenset((0x58, 0x8C, 0x8D))
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}
_FIXED_TUPLES = {0x29: 0, 0x85: 1, 0x86: 2, 0x87: 3}


class DamagedSnapshotError(ValueError):
    """Where the reading stopped: the file is cut, holds more than plain data, or would take too much memory."""


class Consumer(Protocol):
    """What becomes of the parts of a snapshot, in the order of the file."""

    def segment(self, segment: dict[str, Any]) -> None:
        """One segment with its blocks."""

    def entry(self, device: int, entry: dict[str, Any]) -> None:
        """One entry of the trace of a device."""

    def trace(self, device: int) -> None:
        """A trace begins, of the device with this index."""


class _Dict(dict[Any, Any]):
    __slots__ = ("slot",)
    slot: int


class _List(list[Any]):
    __slots__ = ("device", "role", "slot")
    slot: int
    role: str
    device: int


class SnapshotPickle:
    """One snapshot on its way through. After `run`, `settings` holds what stands beside segments and traces."""

    def __init__(self, read: Callable[[int], bytes], consumer: Consumer, stacks: Stacks) -> None:
        self._read = read
        self._consumer = consumer
        self._stacks = stacks
        self._data = b""
        self._at = 0
        self._passed = 0
        self._is_last = False
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo = array("I")
        # The objects that the memo names by number; zero is everything that was handed on or is not kept.
        self._values: list[Any] = [None]
        self._texts: dict[Any, int] = {}
        self._table_bytes = 0
        self._runs: dict[bytes, Stack] = {}
        self._run_bytes = 0
        self._held = 0
        self._devices = 0
        self.is_snapshot = False
        self.settings: dict[str, Any] = {}

    @property
    def position(self) -> int:
        """Bytes of the file that were used up."""
        return self._passed + self._at

    def run(self) -> None:
        """Reads to the end; DamagedSnapshotError where it must stop, with everything complete handed on before."""
        try:
            self._more()
            if len(self._data) < 2 or self._data[0] != 0x80 or not 2 <= self._data[1] <= 5:
                raise DamagedSnapshotError("is no pickle of protocol 2 to 5")
            self._at = 2
            self._operations()
        except (IndexError, struct.error, OverflowError) as error:
            self._hand_on_rest()
            raise DamagedSnapshotError(f"ends, or is damaged, at byte {self.position:,}") from error
        except (TypeError, ValueError) as error:
            self._hand_on_rest()
            if isinstance(error, DamagedSnapshotError):
                raise
            raise DamagedSnapshotError(f"is damaged at byte {self.position:,}") from error
        top = self._stack[-1] if self._stack else None
        if isinstance(top, dict):
            self.settings = {key: value for key, value in top.items() if isinstance(key, str)}

    def _more(self) -> int:
        """Up to where operations may begin in the data at hand, which is refilled; IndexError at the end of the file."""
        if not self._is_last and self._at >= len(self._data) - MARGIN_BYTES:
            if len(self._stack) > MAX_WAITING or len(self._marks) > MAX_WAITING or self._held > MAX_HELD:
                raise DamagedSnapshotError(f"holds too much at once at byte {self.position:,}")
            more = self._read(CHUNK_BYTES)
            self._passed += self._at
            self._data, self._at = self._data[self._at :] + more, 0
            self._is_last = not more
        if self._is_last and self._at >= len(self._data):
            raise IndexError
        return len(self._data) if self._is_last else len(self._data) - MARGIN_BYTES

    def _operations(self) -> None:
        """The operations: the frequent ones here, the others by `_container` and `_rare`."""
        stack, marks, memo, values = self._stack, self._marks, self._memo, self._values
        push, uint32, number = stack.append, _UINT32.unpack_from, int.from_bytes
        run = _RUN.match
        while True:
            limit = self._more()
            data, at = self._data, self._at
            while at < limit:
                operation = data[at]
                if operation == 0x68:
                    push(values[memo[data[at + 1]]])
                    at += 2
                elif operation == 0x6A:
                    push(values[memo[uint32(data, at + 1)[0]]])
                    at += 5
                elif operation == 0x4B:
                    push(data[at + 1])
                    at += 2
                elif operation == 0x8A:
                    size = data[at + 1]
                    if size > MAX_NUMBER_BYTES or at + 2 + size > len(data):
                        raise IndexError
                    push(number(data[at + 2 : at + 2 + size], "little", signed=True))
                    at += 2 + size
                elif operation == 0x28:
                    found = run(data, at + 1)
                    if found and self._is_stack(found[1]):
                        at = found.end()
                    else:
                        marks.append(len(stack))
                        at += 1
                elif operation == 0x2E:
                    self._at = at + 1
                    return
                else:
                    self._at = at + 1
                    if not self._container(operation):
                        self._rare(operation)
                    at = self._at
                    if self._data is not data:
                        break
            self._at = at

    def _container(self, operation: int) -> bool:
        """True if the operation begins, fills or ends a container, or enters one in the memo."""
        stack = self._stack
        if operation == 0x7D or operation == 0x5D:
            new = _Dict() if operation == 0x7D else self._new_list()
            new.slot = -1
            stack.append(new)
        elif operation == 0x94:
            self._put(len(self._memo))
        elif operation == 0x75:
            items = self._to_mark()
            self._fill(stack[-1], items)
        elif operation == 0x73:
            value, key = stack.pop(), stack.pop()
            self._fill(stack[-1], [key, value])
        elif operation == 0x65:
            items = self._to_mark()
            self._extend(stack[-1], items)
        elif operation == 0x61:
            item = stack.pop()
            self._extend(stack[-1], [item])
        else:
            return False
        return True

    def _rare(self, operation: int) -> None:
        """Numbers, texts, tuples, entries of the memo by number, frames of the pickle; anything else ends the reading."""
        stack = self._stack
        if operation == 0x4A:
            stack.append(_INT32.unpack(self._take(4))[0])
        elif operation == 0x4D:
            stack.append(int.from_bytes(self._take(2), "little"))
        elif operation in _CONSTANTS:
            stack.append(_CONSTANTS[operation])
        elif operation in _SIZED:
            text = self._text(int.from_bytes(self._take(_SIZED[operation]), "little"))
            stack.append(text if operation in _TEXTS else None)
        elif operation in _FIXED_TUPLES or operation == 0x74:
            size = _FIXED_TUPLES.get(operation)
            items = self._to_mark() if size is None else [stack.pop() for _ in range(size)][::-1]
            plain = len(items) <= MAX_TUPLE and all(isinstance(item, (int, str)) for item in items)
            stack.append(tuple(items) if plain else None)
        elif operation == 0x95:
            self._take(8)
        elif operation == 0x47:
            stack.append(_FLOAT.unpack(self._take(8))[0])
        elif operation == 0x71 or operation == 0x72:
            self._put(int.from_bytes(self._take(1 if operation == 0x71 else 4), "little"))
        else:
            raise DamagedSnapshotError(f"does more than build plain data at byte {self.position - 1:,}: not read further")

    def _take(self, size: int) -> bytes:
        """The next bytes, at most as many as `MARGIN_BYTES`, which are at hand unless the file ends."""
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise IndexError
        self._at += size
        return found

    def _text(self, size: int) -> str:
        """A text of that many bytes; the rest of a long one is passed over."""
        kept = self._take(min(size, MAX_TEXT_BYTES))
        left = size - len(kept)
        while left:
            step = min(left, len(self._data) - self._at)
            self._at += step
            left -= step
            if left:
                self._more()
        return kept.decode("utf-8", "replace")

    def _new_list(self) -> _List:
        """A list, with its role by where it stands: the segments, the traces, one trace, or a part of something else."""
        stack, marks = self._stack, self._marks
        new = _List()
        new.role = ""
        below = stack[-1] if stack else None
        if below is None or (below == "segments" and len(marks) <= 1):
            new.role, self.is_snapshot = "segments", True
        elif below == "device_traces" and len(marks) <= 1:
            new.role = "traces"
        elif isinstance(below, _List) and below.role in ("traces", "trace"):
            new.role = "trace"
            new.device = self._devices
            self._consumer.trace(self._devices)
            self._devices += 1
        elif isinstance(below, str) and marks == [1]:
            # Such as the annotations: a list beside the two.
            new.role = "ignored"
        return new

    def _to_mark(self) -> list[Any]:
        """What stands above the last mark, taken off the stack."""
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _put(self, index: int) -> None:
        """The top of the stack enters the memo, as a number."""
        memo = self._memo
        if index > len(memo) or index >= MAX_MEMO:
            raise DamagedSnapshotError(f"refers to more objects than can be kept at byte {self.position:,}")
        top = self._stack[-1]
        code = 0
        if isinstance(top, (_Dict, _List)):
            top.slot = index
        elif isinstance(top, (str, tuple)):
            code = self._code_of(top)
        elif isinstance(top, (Frame, Stack)):
            code = top.code
        if index == len(memo):
            memo.append(code)
        else:
            memo[index] = code
            self._runs.clear()

    def _code_of(self, value: Any) -> int:
        """The number of a text or tuple, the same for equal ones; zero where the table is full."""
        code = self._texts.get(value)
        if code is None:
            if self._table_bytes > MAX_TABLE_BYTES:
                return 0
            self._table_bytes += 160 + len(value)
            code = self._texts[value] = len(self._values)
            self._values.append(value)
        return code

    def _fill(self, target: Any, items: list[Any]) -> None:
        """Keys and values go into a dictionary; one that is a frame becomes that frame."""
        if not isinstance(target, _Dict):
            raise TypeError
        self._held += len(items)
        target.update(zip(items[::2], items[1::2], strict=True))
        if "filename" in target and "name" in target:
            frame = self._stacks.frame(target["filename"], target.get("line"), target["name"])
            self._replace_top(frame, target.slot)

    def _replace_top(self, value: Frame | Stack, slot: int) -> None:
        if not value.code:
            value.code = len(self._values)
            self._values.append(value)
        self._stack[-1] = value
        if slot >= 0:
            self._memo[slot] = value.code

    def _is_stack(self, run: bytes) -> bool:
        """True if the list on top of the stack became the stack of frames that `run` takes out of the memo."""
        top = self._stack[-1] if self._stack else None
        if not isinstance(top, _List) or top or top.role:
            return False
        known = self._runs.get(run)
        if known is None:
            frames = []
            at, memo, values = 0, self._memo, self._values
            while at < len(run):
                wide = run[at] == 0x6A
                index = _UINT32.unpack_from(run, at + 1)[0] if wide else run[at + 1]
                frames.append(values[memo[index]])
                at += 5 if wide else 2
            if not all(isinstance(frame, Frame) for frame in frames):
                return False
            known = self._stacks.stack(tuple(frames))
            self._run_bytes += len(run)
            if len(self._runs) >= MAX_RUNS or self._run_bytes > MAX_RUN_BYTES:
                self._runs.clear()
                self._run_bytes = len(run)
            self._runs[run] = known
        self._replace_top(known, top.slot)
        return True

    def _extend(self, target: Any, items: list[Any]) -> None:
        """Items go into a list: into a stack of frames as frames, to the consumer from the lists that it wants."""
        if isinstance(target, Stack):
            # Longer than one batch of the pickler: the outermost frames decide nothing.
            return
        if not isinstance(target, _List):
            raise TypeError
        role = target.role
        if role in ("segments", "trace"):
            self._hand_on(target, items)
        elif role not in ("traces", "ignored"):
            self._held += len(items)
            if not target and items and all(isinstance(item, Frame) for item in items):
                self._replace_top(self._stacks.stack(tuple(items)), target.slot)
            else:
                target.extend(items)

    def _hand_on(self, target: _List, items: list[Any]) -> None:
        consumer = self._consumer
        self._held = 0
        for item in items:
            if not isinstance(item, dict):
                continue
            if target.role == "trace":
                consumer.entry(target.device, item)
            else:
                consumer.segment(item)

    def _hand_on_rest(self) -> None:
        """Complete entries that still waited for their batch when the reading had to stop."""
        owner: _List | None = None
        for item in self._stack:
            if isinstance(item, _List) and item.role in ("segments", "trace"):
                owner = item
            elif owner is not None and isinstance(item, _Dict) and item and ("action" in item or "total_size" in item):
                self._hand_on(owner, [item])
