"""A comparison as the reader sees it, at several widths."""

from __future__ import annotations

import pytest

import golden_file
from firstfault.model.comparison import Comparison, Difference, Explanation, SideValue, Subject, Topic
from firstfault.model.diagnosis import Fix
from firstfault.model.plan import UnknownFact
from firstfault.render.comparison import render_comparison, render_difference
from firstfault.render.comparison_markdown import comparison_markdown
from firstfault.render.layout import cells


def row(topic: Topic, name: str, a: SideValue, b: SideValue, note: str = "") -> Difference:
    return Difference(id=f"{topic}.{name}", topic=topic, name=name, a=a, b=b, note=note)


def value(of: bool | int | float | str | None, where: str = "") -> SideValue:
    return SideValue(value=of, where=where)


UNSET, UNKNOWN = SideValue(state="absent"), SideValue(state="unknown")
EXPLAINED = Comparison(
    a=Subject(name="runs/monday/", kind="run", ending="ends_well", files=3, lines=900),
    b=Subject(name="runs/tuesday/", kind="run", ending="fails", entry="cuda-oom", title="CUDA out of memory", verdict="likely"),
    verdict="likely",
    summary="Every rank holds all weights here, where the other run shards them.",
    explanations=(
        Explanation(
            verdict="likely",
            failing="b",
            text="Every rank holds all weights here, where the other run shards them.",
            entry="cuda-oom",
            title="CUDA out of memory",
            differences=("configuration.zero_optimization.stage (deepspeed)",),
            fix=(Fix(title="Shard the weights again", kind="edit", text='-  "stage": 2,\n+  "stage": 3,\n'),),
        ),
    ),
    differences=(
        row("configuration", "zero_optimization.stage (deepspeed)", value(3, "runs/monday/ds.json:4"), value(2, "ds.json:4")),
        row("plan", "nn.DataParallel", value(False), value(True)),
        row("version", "torch", value("2.4.1", "pip.txt:6"), value("2.6.0", "pip.txt:6")),
        row("environment", "NCCL_DEBUG", UNSET, value("INFO", "NCCL_DEBUG at job.sh:2")),
        row("environment", "LD_LIBRARY_PATH", value("/usr/lib/x86_64-linux-gnu:" * 9), value("\x1b[31mred|`x`\x1b[0m")),
        row("memory", "allocated by PyTorch", value("20.1 GiB"), value("22.5 GiB"), "12 % more"),
        *(row("argument", f"option_{number}", value(number), value(number + 1)) for number in range(20)),
    ),
    unknown=(row("batch", "batch of a device", UNKNOWN, value(8)), row("version", "numpy", value("2.0"), UNKNOWN)),
    equal=37,
    notes=("A was not seen to reach the step at which the other side failed",),
    elapsed_s=0.31,
)
UNDECIDED = Comparison(
    a=Subject(name="python train.py", kind="command", ending="ends_well", told=True, command="python train.py"),
    b=Subject(
        name="accelerate launch train.py", kind="command", ending="fails", told=True, command="accelerate launch train.py"
    ),
    verdict="undetermined",
    summary="With the same visible GPUs both start the same program.",
    alike=("One process, several visible GPUs",),
    missing=(
        UnknownFact(fact="launch.visible_gpus", why="They did not see the same.", command='echo "$CUDA_VISIBLE_DEVICES"'),
    ),
    differences=(row("plan", "started by", value("python"), value("accelerate")),),
    equal=15,
)
ALIKE = Comparison(
    a=Subject(name="a", kind="run", ending="ends_well"),
    b=Subject(name="b", kind="run", ending="ends_well"),
    verdict="no_failure",
    summary="Nothing that was read differs.",
    equal=12,
)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(("name", "made"), [("explained", EXPLAINED), ("undecided", UNDECIDED)])
def test_as_the_reader_sees_it(name: str, made: Comparison, width: int) -> None:
    golden_file.check(f"comparison-{name}-{width}.txt", render_comparison(made, width=width))


def test_as_markdown() -> None:
    golden_file.check("comparison-explained.md", comparison_markdown(EXPLAINED))


@pytest.mark.parametrize("width", [40, 61, 80, 100, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_no_line_is_too_wide_or_drives_the_terminal(width: int, ascii_only: bool) -> None:
    for made in (EXPLAINED, UNDECIDED, ALIKE):
        text = render_comparison(made, width=width, ascii=ascii_only)
        assert all(cells(line) <= width for line in text.splitlines())
        assert "\x1b" not in text
        assert not ascii_only or text.isascii()


def test_the_number_of_rows_of_a_topic_is_bounded_and_said() -> None:
    assert "6 more: --format json" in render_comparison(EXPLAINED)


def test_nothing_that_differs() -> None:
    text = render_comparison(ALIKE)
    assert "NO DIFFERENCE  Nothing that was read differs." in text
    assert "WHAT STARTS" not in text
    assert "both start the same: 12 values are alike" in render_difference(ALIKE)
