"""The fixes of a diagnosis as one patch for `git apply`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from shlex import quote

from firstfault.lazy_pattern import lazy_pattern
from firstfault.model.diagnosis import Diagnosis, Fix

_TARGET = lazy_pattern(r"^\+\+\+ ([^\t\n]+)", re.MULTILINE)


def to_patch(diagnosis: Diagnosis) -> str:
    """The unified diffs of all fixes that apply, one a file; empty if none applies."""
    return patch_of(diagnosis.fix)


def patch_of(fixes: Iterable[Fix]) -> str:
    """The unified diffs of those fixes that apply, one a file; empty if none applies."""
    return "".join(fix.text if fix.text.endswith("\n") else f"{fix.text}\n" for fix in _one_a_file(fixes))


def left_out(diagnosis: Diagnosis) -> list[Fix]:
    """The fixes that are not in the patch: patterns, commands, and a second way to change the same file."""
    chosen = _one_a_file(diagnosis.fix)
    return [fix for fix in diagnosis.fix if not any(fix is other for other in chosen)]


def git_apply(diagnosis: Diagnosis) -> str:
    """The command that takes the patch: `git apply`, with the folder that its paths start from if that is another one."""
    chosen = _one_a_file(diagnosis.fix)
    base = _base(chosen[0]) if chosen else ""
    return f"git -C {quote(base)} apply" if base else "git apply"


def _base(fix: Fix) -> str:
    """The folder that the paths of the diff start from; empty for the working directory."""
    target = _TARGET.search(fix.text)
    path = (fix.file or "").replace("\\", "/")
    named = target[1].removeprefix("b/") if target else path
    if not path.startswith(("/", "../")) or not path.endswith(named):
        return ""
    # A file below the working directory may be named by its whole path: its diff names it from there.
    return path[: -len(named)].rstrip("/") or "/"


def _one_a_file(fixes: Iterable[Fix]) -> list[Fix]:
    """Two diffs of one file were made against the same text: the second would no longer fit. One patch starts in one folder."""
    taken: set[str] = set()
    chosen: list[Fix] = []
    for fix in fixes:
        files = set(_TARGET.findall(fix.text)) or {fix.file or ""}
        if fix.applies and not files & taken and (not chosen or _base(fix) == _base(chosen[0])):
            taken |= files
            chosen.append(fix)
    return chosen
