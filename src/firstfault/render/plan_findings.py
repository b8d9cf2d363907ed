"""The findings of a plan as terminal text: what will not go as meant, where, and the change that ends it."""

from __future__ import annotations

from collections.abc import Sequence

from firstfault.model.diagnosis import Fix
from firstfault.model.plan import Plan, PlanFinding
from firstfault.render.layout import Canvas
from firstfault.render.style import Look, Role

_HEADERS = ("--- ", "+++ ", "diff ", "index ")


def write_findings(canvas: Canvas, findings: Sequence[PlanFinding]) -> None:
    """WARNINGS: the entry, this command's numbers, the place; under each the changes, of which one is enough."""
    canvas.heading("WARNINGS")
    for finding in findings:
        place = f" ({finding.where})" if finding.where else ""
        canvas.prose(f"{finding.entry}{place}", role="warn", hanging=4)
        canvas.prose(finding.text, indent=4)
    if not any(finding.fix for finding in findings):
        return
    canvas.heading("FIX", "one of each")
    for finding in findings:
        for fix in finding.fix:
            canvas.prose(f"{finding.entry}: {fix.title}" if len(findings) > 1 else fix.title, hanging=4)
            write_change(canvas, fix)
    if any(fix.applies for finding in findings for fix in finding.fix):
        canvas.prose("firstfault plan --patch prints the changes for git apply")


def render_check(plan: Plan, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """The findings of files alone; one line where there is none."""
    canvas = Canvas(Look(width=width, color=color, ascii=ascii))
    if plan.findings:
        write_findings(canvas, plan.findings)
    else:
        canvas.prose("nothing is wrong in these files, as far as they show it", indent=0)
    return canvas.text()


def write_change(canvas: Canvas, fix: Fix) -> None:
    """The text of one change: a diff without its header, or commands that can be pasted."""
    lines = canvas.look.block(fix.text.rstrip("\n"))
    if fix.kind != "edit":
        for line in lines:
            canvas.command(line, indent=4)
        return
    if not fix.applies:
        canvas.prose("not made for your file; the change is of this kind:", indent=4, role="dim")
    shown = [line for line in lines if not (fix.applies and line.startswith(_HEADERS))]
    canvas.code([(line, _role(line)) for line in shown], indent=4)


def _role(line: str) -> Role:
    return "added" if line.startswith("+") else "dim" if line.startswith(("@@", " ")) else ""
