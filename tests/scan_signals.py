"""A small set of signals and an independent reading of a log, for the tests of the scan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from firstfault.knowledge.schema import Signal
from firstfault.knowledge.signal_match import match_text

PIECE, STRIDE = 8192, 4096


def signal(ident: str, literal: str, pattern: str, role: str = "initiating", **more: object) -> Signal:
    return Signal(id=ident, event=ident, role=role, fault_class=None, literal=literal, pattern=pattern, **more)


SIGNALS = (
    signal(
        "oom",
        "CUDA out of memory",
        r"CUDA out of memory\. Tried to allocate (?P<size>[0-9.]+ [GM]iB)",
        then=(r"GPU (?P<device>[0-9]+) has", r"of which (?P<free>[0-9.]+ [GM]iB) is free"),
        holes={"size": "size", "device": "int", "free": "size"},
    ),
    signal("oom.any", "CUDA out of memory", r"CUDA out of memory", "either"),
    signal("killed", "Killed process", r"Killed process (?P<pid>[0-9]+)", holes={"pid": "int"}),
    signal("process", " process ", r" process (?P<n>[0-9]{1,3})", "context", holes={"n": "int"}),
    signal("wide", "é: lost", r"[^\r\n]{0,20}é: lost", "collateral"),
    signal("digits", "123456", r"123456(?P<next>[0-9])?", "context", holes={"next": "int"}),
    signal("step", "step: ", r"step: (?P<step>[0-9]+)", "progress", holes={"step": "int"}),
    signal("loss", "'loss': ", r"'loss': (?P<loss>[0-9.]+)", "progress", holes={"loss": "float"}),
)


def plain(data: bytes) -> str:
    """ANSI colours (all that these tests use), NULs and bad bytes gone."""
    return re.sub(r"\x1b\[[0-9;]*m", "", data.decode("utf-8", "replace")).replace("\0", "")


def segments(data: bytes) -> Iterator[tuple[int, int, bytes, str]]:
    """Offset, line number and bytes of each segment, and the text below it."""
    line = 1
    start = 0
    for end in [found.start() for found in re.finditer(rb"[\r\n]", data)] + [len(data)]:
        yield start, line, data[start:end], end
        line += data[end : end + 1] == b"\n"
        start = end + 1


def below(data: bytes, stop: int) -> str:
    rest = data[stop : stop + 4098]
    rest = rest[2:] if rest[:2] == b"\r\n" else rest[1:] if rest[:1] in (b"\r", b"\n") else rest
    return plain(rest[:4096]).replace("\r\n", "\n").replace("\r", "\n")


def brute_force(data: bytes, signals: Sequence[Signal] = SIGNALS) -> list[tuple[str, int, int, str, int, dict, str]]:
    """Every expression on every segment: what the scan must report for all signals that are not progress."""
    found = []
    for start, line, segment, end in segments(data):
        if len(segment) <= PIECE:
            pieces = [(start, segment, len(segment) + 1)]
        else:
            pieces = [(start + at, segment[at : at + PIECE], STRIDE) for at in range(0, len(segment), STRIDE)]
        present = [one for one in signals if one.role != "progress" and one.literal.encode() in segment]
        for offset, piece, owned in pieces:
            text = plain(piece)
            owned_text = len(plain(piece[:owned])) if owned <= len(piece) else len(text) + 1
            for one in present:
                tail = below(data, min(offset + len(piece), end)) if one.then else ""
                for match in re.finditer(one.pattern, text, re.ASCII):
                    if match.start() < owned_text:
                        captures = match_text(one, text[match.start() :], tail)
                        found.append((one.id, offset, line, text, match.start(), captures, tail))
    return sorted(found, key=lambda hit: (hit[1], hit[4], hit[0]))


def told(hits: Sequence) -> list[tuple[str, int, int, str, int, dict, str]]:
    """The hits of a scan in the form of `brute_force`."""
    found = [(hit.signal.id, hit.offset, hit.line, hit.text, hit.start, hit.captures, hit.tail) for hit in hits]
    return sorted(found, key=lambda hit: (hit[1], hit[4], hit[0]))
