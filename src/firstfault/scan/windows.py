"""Raw bytes kept around what matters, so that tracebacks and blocks can be read without going through the whole file again."""

from __future__ import annotations

from collections import deque

from firstfault.scan.census import Census
from firstfault.scan.result import Window
from firstfault.scan.stream import Stream

BYTES_BEFORE = 32 << 10
BYTES_AFTER = 96 << 10
EDGE_BYTES = 64 << 10
WHOLE_BYTES = 1 << 20
FIRST_BYTES = 3 << 20
LAST_BYTES = 3 << 20


class WindowKeeper:
    """The head, the tail and the surroundings of marked places; a small stream is kept whole.

    Of all these bytes the first and the last 3 MiB stay, the others are counted in `dropped_bytes`.
    """

    def __init__(self, stream: Stream, census: Census) -> None:
        self._stream = stream
        self._census = census
        self._whole: bytearray | None = bytearray()
        self._copied = 0
        self._stop = EDGE_BYTES
        self._first: list[Window] = []
        self._room = FIRST_BYTES
        self._last: deque[Window] = deque()
        self._last_bytes = 0
        self.dropped_bytes = 0

    def mark(self, position: int) -> None:
        """Keep the surroundings of a place; places come in ascending order."""
        self._want(max(position - BYTES_BEFORE, 0), position + BYTES_AFTER)

    def collect(self) -> None:
        """Copy what is wanted of the bytes in the buffer; to be called before the next block is read."""
        stream = self._stream
        if self._whole is not None:
            if stream.end > WHOLE_BYTES:
                self._whole = None
            else:
                self._whole += stream.view(len(self._whole), stream.end)
        stop = min(self._stop, stream.end)
        if stop > self._copied:
            self._keep(self._copied, stop)
            self._copied = stop

    def finish(self) -> tuple[Window, ...]:
        """All windows in order, after the whole stream went by."""
        if self._whole is not None:
            self.dropped_bytes = 0
            return (Window(offset=0, line=1, data=bytes(self._whole)),) if self._whole else ()
        self._want(self._stream.end - EDGE_BYTES, self._stream.end)
        self.collect()
        self._trim(LAST_BYTES)
        return _joined([*self._first, *self._last])

    def _want(self, start: int, stop: int) -> None:
        if start > self._stop:
            self.collect()
            self._copied = start
        self._stop = max(self._stop, stop)

    def _keep(self, start: int, stop: int) -> None:
        border = min(stop, start + self._room)
        if border > start:
            self._first.append(self._window(start, border))
            self._room -= border - start
        if stop > border:
            self._last.append(self._window(border, stop))
            self._last_bytes += stop - border
            # Whole windows only: the exact border is cut once, at the end.
            while self._last_bytes - len(self._last[0].data) >= LAST_BYTES:
                self._trim(self._last_bytes - len(self._last[0].data))

    def _trim(self, limit: int) -> None:
        """Drop the oldest of the last windows down to `limit` bytes, the final one in part."""
        while self._last_bytes > limit:
            window = self._last.popleft()
            cut = min(self._last_bytes - limit, len(window.data))
            self.dropped_bytes += cut
            self._last_bytes -= cut
            if cut < len(window.data):
                line = window.line + window.data.count(b"\n", 0, cut)
                self._last.appendleft(Window(offset=window.offset + cut, line=line, data=window.data[cut:]))

    def _window(self, start: int, stop: int) -> Window:
        return Window(offset=start, line=self._census.line_number(start), data=bytes(self._stream.view(start, stop)))


def _joined(windows: list[Window]) -> tuple[Window, ...]:
    """The windows, neighbours that touch made one."""
    runs: list[list[Window]] = []
    for window in windows:
        if runs and runs[-1][-1].offset + len(runs[-1][-1].data) == window.offset:
            runs[-1].append(window)
        else:
            runs.append([window])
    return tuple(Window(offset=run[0].offset, line=run[0].line, data=b"".join(part.data for part in run)) for run in runs)
