"""Log lines that a collector wrapped in JSON, one object a line: the text that the run printed, with its time before it."""

from __future__ import annotations

import codecs
import json

SAMPLE_LINES = 5
MAX_LINE_CHARS = 1 << 20
"""A longer line is passed on as it is."""

_MESSAGES = ("log", "textPayload", "message", "msg")
_TIMES = ("time", "timestamp", "@timestamp")
_COMPANIONS = {"log": ("stream", *_TIMES), "textPayload": _TIMES, "message": _TIMES, "msg": _TIMES}
"""A message counts as one beside one of these: Docker's json-file, fluentd, Google Cloud, structured loggers."""


def is_wrapped(head: bytes) -> bool:
    """True if the first whole lines are objects with a message of the run in them."""
    whole = head[: head.rfind(b"\n") + 1] or head
    lines = [line for line in whole.splitlines()[: 4 * SAMPLE_LINES] if line.strip()][:SAMPLE_LINES]
    return bool(lines) and all(_unwrapped(line.decode("utf-8", errors="replace")) is not None for line in lines)


class EnvelopeDecoder:
    """Decodes piece by piece: every object becomes the line that it holds, anything else stays."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""

    def decode(self, data: bytes, final: bool = False) -> str:
        """The text of all lines that `data` completes; with `final` of the last one too."""
        lines = (self._rest + self._decoder.decode(data, final)).split("\n")
        self._rest = "" if final or len(lines[-1]) > MAX_LINE_CHARS else lines.pop()
        if final and not lines[-1]:
            lines.pop()
            return "".join(map(_line, lines))
        return "".join(map(_line, lines))


def _line(raw: str) -> str:
    found = _unwrapped(raw)
    if found is None:
        return raw + "\n"
    time, text = found
    return f"{time} {text}\n" if time else f"{text}\n"


def _unwrapped(raw: str) -> tuple[str, str] | None:
    """Time and message of one object; None if it is none."""
    if not raw.startswith("{") or len(raw) > MAX_LINE_CHARS:
        return None
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    for key in _MESSAGES:
        message = fields.get(key)
        if isinstance(message, str) and any(name in fields for name in _COMPANIONS[key]):
            time = next((str(fields[name]) for name in _TIMES if isinstance(fields.get(name), str)), "")
            # A progress bar comes as one message: what it overwrote is overwritten here too.
            return time, message.rstrip("\r\n").rpartition("\r")[2]
    return None
