"""Bytes and durations, from text to numbers and back."""

from __future__ import annotations

from firstfault.lazy_pattern import lazy_pattern

_BYTE_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
    # Kernel and scheduler texts write kB, MB, GB (and K, M, G) for powers of 1024.
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "tb": 1 << 40,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
}
_SIZE = lazy_pattern(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\Z")
_DURATION_UNITS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "milliseconds": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hours": 3600.0,
    "": 1.0,
}

RELATIVE_ROUNDING = 0.005
"""A number printed with two decimals stands for +-0.5 %: comparisons closer than that decide nothing."""


def parse_size(text: str) -> int:
    """Bytes of `594.00 MiB`, `12 bytes`, `1024kB`; ValueError for anything else."""
    found = _SIZE.match(text.strip())
    if not found:
        raise ValueError(f"not a size: {text!r}")
    unit = found[2].lower() or "b"
    if unit not in _BYTE_UNITS:
        raise ValueError(f"unknown unit of size: {text!r}")
    size = float(found[1]) * _BYTE_UNITS[unit]
    if size == float("inf"):
        raise ValueError("too many digits for a size")
    return round(size)


def format_size(size_bytes: float) -> str:
    """`1.17 GiB`, `594 MiB`, `12 bytes`: three significant digits, binary units."""
    value, units = float(size_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while abs(value) >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    unit = units[0]
    if unit == "bytes":
        return f"{int(value)} bytes"
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    text = f"{value:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {unit}"


def parse_duration(text: str) -> float:
    """Seconds of `600040 milliseconds`, `30s`, `10 min`; a bare number counts as seconds."""
    found = _SIZE.match(text.strip())
    if not found or found[2].lower() not in _DURATION_UNITS:
        raise ValueError(f"not a duration: {text!r}")
    return float(found[1]) * _DURATION_UNITS[found[2].lower()]


def format_duration(duration_s: float) -> str:
    """`4.9 s`, `10 min`, `2 h 5 min`."""
    if abs(duration_s) < 120:
        text = f"{duration_s:.1f}".rstrip("0").rstrip(".")
        return f"{text} s"
    minutes = round(duration_s / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"
