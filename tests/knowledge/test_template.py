import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.knowledge.schema import FactSpec
from firstfault.knowledge.template import fill, fill_blanks, format_value, holes
from firstfault.model.span import SourceSpan


class Known:
    def __init__(self, **values):
        self.values = {name.replace("__", "."): value for name, value in values.items()}

    def value(self, name):
        return self.values.get(name)

    def span(self, name):
        return SourceSpan("train.py", 88, 2000) if name in self.values else None


def spec(name, kind, unit=""):
    return FactSpec(name=name, type=kind, says="s", ask="a", obtain="o", cost="seconds", unit=unit)


def test_facts_are_formatted_by_type_and_unit():
    specs = {"oom.requested": spec("oom.requested", "bytes"), "c.ran_for": spec("c.ran_for", "float", "s")}
    known = Known(
        oom__requested=594 << 20, c__ran_for=600.04, exit__code=-9, r__ratio=1.23456, s__on=True, l__all=("ddp", "tp")
    )
    text = "{oom.requested}, {c.ran_for}, {exit.code}, {r.ratio}, {s.on}, {l.all}"
    assert fill(text, known, specs) == "594 MiB, 10 min, -9, 1.235, yes, ddp, tp"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("m.peak_bytes", 12, "12 bytes"), ("c.wait_s", 4.9, "4.9 s"), ("a.b", 3, "3"), ("a.b", False, "no")],
)
def test_names_carry_their_unit(name, value, text):
    assert format_value(name, value) == text


def test_a_sentence_with_an_unknown_hole_is_dropped_and_the_rest_stays():
    text = "It died in {oom.phase}. {oom.requested_bytes} were asked for. The limit is fixed."
    assert fill(text, Known(oom__phase="forward"), {}) == "It died in forward. The limit is fixed."
    assert fill("{a.b} only", Known(), {}) == ""


def test_a_dot_inside_a_name_or_number_ends_no_sentence():
    assert fill("Needs torch 2.13 and {a.b} more. Then {c.d}.", Known(a__b=1), {}) == "Needs torch 2.13 and 1 more."


def test_span_is_file_and_line():
    assert fill("backward() stands at {script.x.span}.", Known(script__x=True), {}) == "backward() stands at train.py:88."
    assert fill("backward() stands at {script.y.span}.", Known(), {}) == ""


def test_commands_keep_what_is_unknown_as_a_gap():
    names = {"log": "the log", "script": "your script"}
    specs = {"a.b": spec("a.b", "int"), "a.c": spec("a.c", "int")}
    assert (
        fill_blanks("firstfault {log}. Then {a.b} {a.c}", Known(a__b=2), specs, names) == "firstfault <the log>. Then 2 <a.c>"
    )


def test_braces_that_are_no_blanks_belong_to_the_code():
    code = 'torch.load(path, map_location=f"cuda:{local}"); f"{state.step}"'
    assert fill_blanks(code, Known(), {"a.b": spec("a.b", "int")}, {"log": "the log"}) == code


@pytest.mark.parametrize(
    ("text", "one"),
    [
        ("{a.b} GPUs are visible.", "1 GPU is visible."),
        ("{a.b} processes on this host.", "1 process on this host."),
        ("{a.b} training steps had been done.", "1 training step had been done."),
        ("{a.b} of its ranks.", "1 of its ranks."),
        ("Xid {a.b} for this GPU.", "Xid 1 for this GPU."),
    ],
)
def test_one_is_not_many(text, one):
    assert fill(text, Known(a__b=1), {}) == one
    assert fill(text, Known(a__b=2), {}) == text.replace("{a.b}", "2")


def test_other_braces_are_text():
    assert fill('{"rank": 0} {} {A}', Known(), {}) == '{"rank": 0} {} {A}'
    assert holes("{a.b} {x} {a.b.span} {a.b} {not a hole}") == ("a.b", "x", "a.b.span")


@given(st.text(max_size=80))
def test_nothing_known_leaves_no_hole(text):
    assert holes(fill(text, Known(), {})) == ()
