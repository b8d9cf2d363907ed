"""The fixes of a diagnosis as one patch for `git apply`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Diagnosis, Fix

_TARGET = lazy_pattern(r"^\+\+\+ ([^\t\n]+)", re.MULTILINE)


def to_patch(diagnosis: Diagnosis) -> str:
    """The unified diffs of all fixes that apply, one a file; empty if none applies."""
    return "".join(fix.text if fix.text.endswith("\n") else f"{fix.text}\n" for fix in _one_a_file(diagnosis.fix))


def left_out(diagnosis: Diagnosis) -> list[Fix]:
    """The fixes that are not in the patch: patterns, commands, and a second way to change the same file."""
    chosen = _one_a_file(diagnosis.fix)
    return [fix for fix in diagnosis.fix if not any(fix is other for other in chosen)]


def _one_a_file(fixes: Iterable[Fix]) -> list[Fix]:
    """Two diffs of one file were made against the same text: the second would no longer fit."""
    taken: set[str] = set()
    chosen = []
    for fix in fixes:
        files = set(_TARGET.findall(fix.text)) or {fix.file or ""}
        if fix.applies and not files & taken:
            taken |= files
            chosen.append(fix)
    return chosen
