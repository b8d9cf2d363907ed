from __future__ import annotations

import msgspec
import pytest

from firstfault.knowledge.schema import CodeBlock, Condition, Entry, EntryBody, EntryTest, FixRule, VerifyRule
from firstfault.render.entry import entry_markdown, render_entry, render_list
from firstfault.render.layout import cells
from golden_file import check

PARENT = Entry(
    id="memory-growth", title="Memory grows from step to step", category="memory", role="initiating", status="stable"
)
ENTRY = Entry(
    id="graph-kept",
    title="Graphs of a whole window are kept",
    category="memory",
    role="initiating",
    refines="memory-growth",
    since="0.1",
    verified_on=("torch 2.13",),
    stacks=("torch", "accelerate"),
    aliases=("memory grows every micro-batch",),
    related=("memory-growth", "not-there"),
    requires=(Condition(if_="train.accumulation_steps > 1"),),
    evidence=(Condition(if_="script.retain_graph", weight=3), Condition(if_="memory.micro_step_r2 > 0.95", decisive=True)),
    against=(Condition(if_='oom.phase == "optimizer"', veto=True), Condition(if_="a.b", weight=2)),
    fixes=(FixRule(id="backward-each", title="Call backward in each micro-batch", risk="none"),),
)
BODY = EntryBody(
    sections={
        "In short": "One buffer too many: *each* micro-batch keeps its graph.\n",
        "What you see": "| step | MiB |\n|---|---|\n| 1 | 12 |\n",
        "Fix": "\n",
        "Prevent": "- Log numbers, never tensors.\n- Run two windows.\n",
        "Tests": "nothing for readers\n",
    },
    fixes={"backward-each": (CodeBlock(language="diff", stack="torch", text="-total.backward()\n+loss.backward()\n"),)},
    fix_texts={"backward-each": "Scale the loss.\n"},
    tests=(EntryTest(kind="log", name="wins", expect="graph-kept", text="nothing for readers"),),
)
ENTRIES = {entry.id: entry for entry in (PARENT, ENTRY)}


def test_golden() -> None:
    check("entry-80.txt", render_entry(ENTRY, BODY, entries=ENTRIES))
    check("entry.md", entry_markdown(ENTRY, BODY))
    check("entry-list.txt", render_list(ENTRIES))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_line_passes_the_width(width: int) -> None:
    for text in (render_entry(ENTRY, BODY, entries=ENTRIES, width=width), render_list(ENTRIES, width=width)):
        assert max(map(cells, text.splitlines())) <= width


def test_tests_are_not_for_readers() -> None:
    assert "nothing for readers" not in render_entry(ENTRY, BODY)
    assert "nothing for readers" not in entry_markdown(ENTRY, BODY)


def test_only_known_relatives_are_named() -> None:
    text = render_entry(ENTRY, BODY, entries=ENTRIES)
    assert "memory-growth: Memory grows from step to step" in text
    assert "not-there" not in text


def test_a_parent_names_its_children() -> None:
    assert "graph-kept: Graphs of a whole window are kept" in render_entry(PARENT, BODY, entries=ENTRIES)


def test_ascii_is_ascii() -> None:
    assert render_entry(ENTRY, BODY, ascii=True).isascii()


def test_the_check_and_the_sentence_of_a_condition_are_shown() -> None:
    entry = msgspec.structs.replace(
        ENTRY,
        requires=(Condition(if_="train.accumulation_steps > 1", says="Gradients are accumulated."),),
        verify=(VerifyRule(id="flat", run="{launch.command} --steps 2", expect="a flat line"),),
    )
    text = render_entry(entry, msgspec.structs.replace(BODY, sections={**BODY.sections, "Verify": ""}), entries=ENTRIES)
    assert "$ <launch.command> --steps 2" in text
    assert "must show: a flat line" in text
    assert "Gradients are accumulated.\n" in text
