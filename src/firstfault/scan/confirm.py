"""From an occurrence of a literal to the hits of its signals: the expression with captures on the enclosing line only."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from firstfault.knowledge.schema import Signal
from firstfault.knowledge.signal_match import match_text
from firstfault.scan.census import Census
from firstfault.scan.lines import decode_line
from firstfault.scan.result import Hit
from firstfault.scan.stream import Piece, Stream


def confirm(signals: Sequence[Signal], piece: Piece, stream: Stream, census: Census) -> Iterator[Hit]:
    """Every match of the signals in a piece of the stream, the matches of one signal in order.

    Expressions are compiled on the first occurrence of their literal, so unused signals cost nothing.
    """
    raw = stream.copy(piece.start, piece.stop)
    text = decode_line(raw)
    owned = len(text) if piece.owned >= len(raw) else len(decode_line(raw[: piece.owned]))
    line = 0
    for signal in signals:
        for found in _expression(signal.pattern).finditer(text):
            if found.start() > owned or (found.start() == owned and piece.owned < len(raw)):
                break
            tail = _text_below(stream, piece) if signal.then else ""
            captures = match_text(signal, text[found.start() :] if found.start() else text, tail)
            if captures is None:
                continue
            line = line or census.line_number(piece.start)
            yield Hit(
                signal=signal,
                offset=piece.start,
                line=line,
                text=text,
                start=found.start(),
                captures=captures,
                tail=tail,
            )


def _text_below(stream: Stream, piece: Piece) -> str:
    return decode_line(stream.below(piece.stop)).replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=4096)
def _expression(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)
