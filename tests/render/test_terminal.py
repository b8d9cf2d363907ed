from __future__ import annotations

import re

import msgspec
import pytest

from diagnosis_samples import ALL, HOSTILE, TITLES, established, hostile, no_failure, symmetric, undetermined
from firstfault.model.diagnosis import Alternative, Diagnosis, Initiating
from firstfault.render.layout import cells
from firstfault.render.terminal import render_diagnosis
from golden_file import check

WIDTHS = (60, 80, 120)
OWN_CODES = re.compile(r"\x1b\[(?:0|1|2|32|1;3[123])m")
OWN_LINKS = re.compile(r"\x1b\]8;;(?:file://[\x21-\x7e]*)?\x1b\\")


def _render(diagnosis: Diagnosis, **options: object) -> str:
    return render_diagnosis(diagnosis, titles=TITLES, inputs="runs/job-4127/", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_golden(name: str, width: int) -> None:
    check(f"{name}-{width}.txt", _render(ALL[name](), width=width))


@pytest.mark.parametrize("name", ["established", "undetermined"])
def test_golden_ascii(name: str) -> None:
    check(f"{name}-ascii.txt", _render(ALL[name](), ascii=True))


def test_golden_color() -> None:
    check("established-color.txt", _render(established(), color=True))


@pytest.mark.parametrize("width", [40, 59, 60, 79, 80, 99, 100, 120, 200])
@pytest.mark.parametrize("name", ALL)
def test_no_line_passes_the_width(name: str, width: int) -> None:
    for ascii_only in (False, True):
        assert max(map(cells, _render(ALL[name](), width=width, ascii=ascii_only).splitlines())) <= width


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL)
def test_colour_and_links_add_codes_and_nothing_else(name: str, width: int) -> None:
    painted = _render(ALL[name](), width=width, color=True, links=True)
    plain = OWN_LINKS.sub("", OWN_CODES.sub("", painted))
    assert [line.rstrip() for line in plain.splitlines()] == _render(ALL[name](), width=width).splitlines()


@pytest.mark.parametrize("name", ALL)
def test_ascii_is_ascii(name: str) -> None:
    assert _render(ALL[name](), ascii=True).isascii()


def test_logs_cannot_drive_the_terminal() -> None:
    plain = _render(hostile())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]", plain)
    painted = OWN_LINKS.sub("", OWN_CODES.sub("", _render(hostile(), color=True, links=True)))
    assert "\x1b" not in painted


def test_a_link_names_file_and_line_and_is_quoted() -> None:
    assert re.search(r"\x1b\]8;;file:///[^\x1b]*/logs/rank2\.log#8841\x1b\\", _render(established(), links=True))
    assert "evil.log#1" in _render(hostile(), links=True)
    assert "file://" not in _render(established())


def test_standard_input_is_no_link() -> None:
    piped = msgspec.structs.replace(
        undetermined(), evidence=tuple(msgspec.structs.replace(item, source="<stdin>") for item in undetermined().evidence)
    )
    assert "file://" not in _render(piped, links=True)


@pytest.mark.parametrize("name", ALL)
def test_the_first_line_says_what_was_read_and_that_nothing_left(name: str) -> None:
    assert _render(ALL[name]()).splitlines()[0].endswith("nothing left this machine")


@pytest.mark.parametrize("name", ALL)
def test_the_last_line_is_the_next_command(name: str) -> None:
    assert _render(ALL[name]()).splitlines()[-1].startswith("more: ")


@pytest.mark.parametrize(
    ("make", "word"), [(established, "FAILED  "), (undetermined, "UNDETERMINED  "), (no_failure, "NO FAILURE  ")]
)
def test_the_verdict_comes_second(make: object, word: str) -> None:
    assert _render(make()).splitlines()[2].startswith(word)  # type: ignore[operator]


def test_every_line_of_evidence_is_named_by_place() -> None:
    text = _render(established())
    for item in established().evidence:
        if item.id not in ("e7", "e8"):
            assert f"{item.source}:{item.line}" in text


def test_collateral_is_named_once() -> None:
    assert _render(established()).count("stopped by the launcher") == 1
    assert "ranks 0, 1, 3" in _render(established())


def test_apply_is_offered_only_for_a_fix_that_applies() -> None:
    assert "--patch | git apply" in _render(established())
    assert "git apply" not in _render(symmetric())


def test_a_pattern_is_called_a_pattern() -> None:
    assert _render(established()).count("the pattern; adapt the names") == 1


def test_only_an_established_answer_says_that_nothing_speaks_against_it() -> None:
    likely = msgspec.structs.replace(established(), verdict="likely", alternatives=())
    assert "nothing found" in _render(established())
    assert "nothing found" not in _render(likely)
    contradicted = msgspec.structs.replace(
        established(),
        alternatives=(Alternative(entry="memory-longest-batch", verdict="possible", against=("A counterproof.",)),),
    )
    assert "nothing found" not in _render(contradicted)
    assert "A counterproof." in _render(contradicted)


def test_the_missing_fact_comes_before_the_evidence_when_undetermined() -> None:
    text = _render(undetermined())
    assert text.index("MISSING FACT") < text.index("EVIDENCE")
    assert "firstfault diagnose runs/job-4127/ --fact oom.phase=VALUE" in text
    assert "exit status 3" in text


def test_notes_are_bounded() -> None:
    assert "4 more: --format json" in _render(hostile())


def test_where_a_library_is_installed_is_left_out() -> None:
    line = '  File "/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", line 178, in _init_group'
    answer = msgspec.structs.replace(
        established(), evidence=(msgspec.structs.replace(established().evidence[0], text=line), *established().evidence[1:])
    )
    assert 'File "…/torch/optim/adam.py", line 178, in' in _render(answer, width=120)


def test_nobody_is_pointed_at_when_the_rank_is_not_known() -> None:
    unknown = msgspec.structs.replace(established(), initiating=Initiating(rank=None, evidence=("e1",)))
    assert "▶" not in _render(unknown)
    assert "which rank failed first is not known\n" in _render(unknown)


def test_an_almost_empty_answer_is_readable() -> None:
    text = _render(Diagnosis(verdict="no_failure"))
    assert text == (
        "0 files · 0 bytes · under 0.1 s · nothing left this machine\n\n"
        "NO FAILURE  Nothing in what was read failed\n\nmore: --format json|markdown|html\n"
    )


def test_the_hostile_text_is_still_there_to_read() -> None:
    assert "内存不足" in _render(hostile())
    assert HOSTILE.count("\x1b") > 0
