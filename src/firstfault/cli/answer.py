"""The answer to what was handed over: diagnosed, written in the form asked for, and told by the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from firstfault.cli.screen import Screen, find_screen, write

if TYPE_CHECKING:
    from pathlib import Path

    from firstfault.knowledge.schema import Pack
    from firstfault.model.diagnosis import Diagnosis


def answer(inputs: Sequence[str]) -> int:
    """Shows what `firstfault INPUT...` shows without any option."""
    return show(inputs, named=inputs, facts={}, form="terminal", output=None, patch=False, screen=find_screen())


def show(
    inputs: Sequence[str],
    *,
    named: Sequence[str],
    facts: Mapping[str, str],
    form: str,
    output: Path | None,
    patch: bool,
    screen: Screen,
) -> int:
    """Diagnoses, writes the answer and returns its exit code. `named` are the inputs as later commands should name them."""
    from firstfault.engine.investigate import investigate
    from firstfault.ingest.bundle import gather
    from firstfault.knowledge.pack import load_pack
    from firstfault.render.words import exit_code

    pack = load_pack()
    if "-" in inputs and sys.stdin.isatty():
        print("Paste the log, then press Ctrl-D.", file=sys.stderr)
    bundle = gather(inputs, pack, stdin=sys.stdin.buffer if "-" in inputs else None)
    diagnosis = investigate(bundle, pack, facts)
    present(diagnosis, pack, named=named, form=form, output=output, patch=patch, screen=screen)
    return exit_code(diagnosis)


def present(
    diagnosis: Diagnosis,
    pack: Pack,
    *,
    named: Sequence[str],
    form: str,
    output: Path | None,
    patch: bool,
    screen: Screen,
    here: bool = True,
) -> None:
    """Writes an answer in the form asked for; `here` is false if the evidence was sent to a console."""
    if patch:
        _write_patch(diagnosis, output)
        return
    write(_rendered(diagnosis, pack, form, _quoted(named), screen, here), output)
    if output:
        print(f"written: {output}", file=sys.stderr)


def _rendered(diagnosis: Diagnosis, pack: Pack, form: str, inputs: str, screen: Screen, here: bool) -> str | bytes:
    if form == "json":
        from firstfault.render.json import to_json

        return to_json(diagnosis)
    titles = {entry.id: entry.title for entry in pack.entries.values()}
    if form == "markdown":
        from firstfault.render.markdown import to_markdown

        return to_markdown(diagnosis, titles=titles, inputs=inputs, here=here)
    if form == "html":
        from firstfault.render.html import to_html

        return to_html(diagnosis, titles=titles, inputs=inputs, here=here)
    from firstfault.render.terminal import render_diagnosis

    return render_diagnosis(
        diagnosis,
        width=screen.width,
        color=screen.color,
        ascii=screen.ascii,
        links=screen.links,
        titles=titles,
        inputs=inputs,
        here=here,
    )


def _write_patch(diagnosis: Diagnosis, output: Path | None) -> None:
    from firstfault.render import safe
    from firstfault.render.patch import git_apply, left_out, to_patch
    from firstfault.render.words import fix_heading

    text = to_patch(diagnosis)
    watched = output is None and sys.stdout.isatty()
    if text:
        if (command := git_apply(diagnosis)) != "git apply":
            print(f"its paths do not start here: {safe.line(command)}", file=sys.stderr)
        write(safe.block(text) if watched else text.encode("utf-8", "surrogateescape"), output)
    else:
        print("No fix of this answer is a patch.", file=sys.stderr)
    for fix in left_out(diagnosis):
        print(f"not in the patch: {safe.line(fix_heading(fix) or fix.kind)}", file=sys.stderr)


def _quoted(inputs: Sequence[str]) -> str:
    from shlex import quote

    return " ".join(quote(item) for item in inputs)
