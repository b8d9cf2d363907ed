from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import msgspec
import pytest

from diagnosis_samples import ALL, HOSTILE, TITLES, established, hostile, undetermined
from firstfault.render.html import to_html
from golden_file import check

VOID = {"meta", "wbr"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "section", "h1", "h2", "h3", "p", "strong"),
    *("dl", "dt", "dd", "div", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "span", "code", "pre", "a", "wbr"),
    *("details", "summary", "svg", "line", "path", "circle", "text"),
}
LOADING = {"src", "srcset", "style", "action", "data", "poster", "background", "ping"}


class _Page(HTMLParser):
    """The tags and attributes of a page; fails where tags are not nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self._open[-1:]:
            self.text.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def _html(name: str) -> str:
    return to_html(ALL[name](), titles=TITLES, inputs="runs/job-4127/")


@pytest.mark.parametrize("name", ["established", "undetermined", "hostile", "thousand-ranks"])
def test_golden(name: str) -> None:
    check(f"{name}.html", _html(name))


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_loaded_or_run(name: str) -> None:
    page = _Page(_html(name))
    assert set(page.tags) <= TAGS
    assert not [attribute for _, attribute, _ in page.attributes if attribute in LOADING or attribute.startswith("on")]
    assert all(value.startswith("#") for value in page.values("href"))
    assert "url(" not in _html(name)
    assert "@import" not in _html(name)


def test_log_text_is_text() -> None:
    text = "".join(_Page(_html("hostile")).text)
    assert "</script><img src=x onerror=alert(1)>" in text
    assert HOSTILE.count("<") > 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", _html("hostile"))


def test_the_policy_allows_the_style_sheet_and_nothing_else() -> None:
    text = _html("established")
    css = re.search("<style>(.*?)</style>", text, re.DOTALL)
    assert css
    digest = base64.b64encode(hashlib.sha256(css[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'" in text


@pytest.mark.parametrize("name", ALL)
def test_it_is_accessible_by_structure(name: str) -> None:
    page = _Page(_html(name))
    assert [page.tags.count(tag) for tag in ("html", "main", "header", "footer", "h1")] == [1] * 5
    assert page.values("lang") == ["en"]
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(page.values("aria-labelledby")) <= set(ids)
    levels = [int(tag[1]) for tag in page.tags if tag in ("h1", "h2", "h3")]
    assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", ALL)
def test_links_lead_to_lines_that_are_there(name: str) -> None:
    page = _Page(_html(name))
    assert {value[1:] for value in page.values("href")} <= set(page.values("id"))


def test_the_drawing_has_its_table() -> None:
    text = _html("established")
    assert text.count("<svg") == 1
    table = text[text.index("the same as a table") :]
    for rank in range(4):
        assert f"<th scope='row'>rank {rank}</th>" in table
    assert "Timeline with 4 rows; failed first: rank 2" in text


def test_the_missing_fact_comes_before_what_is_known() -> None:
    text = to_html(undetermined(), titles=TITLES)
    assert text.index("Missing fact") < text.index("What is known")
    assert "--fact oom.phase=VALUE" in text


def test_the_fix_shows_what_is_added() -> None:
    assert '<span class="plus">+  max_length: 4096</span>' in to_html(established())


def test_lines_of_evidence_stay_lines() -> None:
    first, *rest = established().evidence
    frame = msgspec.structs.replace(first, text='File "x.py", line 3, in f\n    return g()')
    text = to_html(msgspec.structs.replace(established(), evidence=(frame, *rest)))
    assert '<td class="log">File &quot;x.py&quot;, line 3, in f\n    return g()</td>' in text


def test_the_page_can_be_written_as_utf8() -> None:
    to_html(hostile()).encode("utf-8")


def test_signs_of_the_drawing_lead_to_their_lines() -> None:
    page = _Page(_html("established"))
    drawing = _html("established").split("<svg ")[1].split("</svg>")[0]
    targets = re.findall(r'<a href="#([^"]+)" aria-label="[^"]+">', drawing)
    assert targets and set(targets) <= set(page.values("id"))
    assert 'role="group"' in drawing
