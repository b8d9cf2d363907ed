from __future__ import annotations

from firstfault.render.layout import Canvas
from firstfault.render.prose import Block, draw, plain, read_blocks
from firstfault.render.style import Look

SECTION = """\
A paragraph that
goes on.
1. first
   item
2. second
- *not* bold

| a | b \\| c |
|---|---|
| 1 | 2 |

```python
x = 1

y = 2
```
~~~
`~~~` inside
~~~
"""


def test_blocks() -> None:
    assert read_blocks(SECTION) == [
        Block("paragraph", "A paragraph that goes on."),
        Block("item", "first item", "1. "),
        Block("item", "second", "2. "),
        Block("item", "*not* bold", "- "),
        Block("table", rows=(("a", "b | c"), ("1", "2"))),
        Block("code", "x = 1\n\ny = 2"),
        Block("code", "`~~~` inside"),
    ]


def test_marks_of_emphasis_go_and_code_stays() -> None:
    assert plain("**twice** is *six*, `a * b * c`, [docs](https://x.example/y)") == (
        "twice is six, `a * b * c`, docs (https://x.example/y)"
    )
    assert plain("4 * 2 * 3") == "4 * 2 * 3"


def test_a_wide_table_folds_its_widest_column() -> None:
    canvas = Canvas(Look(width=40))
    draw(canvas, "| what | peak |\n|---|---|\n| a very long description of the run | 10 GB |\n")
    assert canvas.text() == ("  what                             peak\n  a very long description of the   10 GB\n  run\n")


def test_items_hang_below_their_text() -> None:
    canvas = Canvas(Look(width=40))
    draw(canvas, "1. a sentence that is longer than the width of it\n2. short\n")
    assert canvas.text() == "  1. a sentence that is longer than the\n     width of it\n  2. short\n"


def test_an_open_fence_ends_with_the_section() -> None:
    assert read_blocks("```\nx") == [Block("code", "x")]
