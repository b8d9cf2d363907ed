import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.errors import ExpressionError
from firstfault.knowledge.expression import parse


class Known:
    def __init__(self, values, rounded=()):
        self.values, self.rounded_names = values, frozenset(rounded)

    def value(self, name):
        return self.values.get(name)

    def rounded(self, name):
        return name in self.rounded_names


def holds(text, rounded=(), **values):
    return parse(text).evaluate(Known({name.replace("__", "."): value for name, value in values.items()}, rounded))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes and maybe", None),
        ("no and maybe", False),
        ("yes or maybe", True),
        ("no or maybe", None),
        ("not maybe", None),
        ("not no", True),
        ("maybe == true", None),
        ('maybe in ["a", "b"]', None),
        ("maybe > 1", None),
        ("maybe + 1 > 1", None),
        ("not not yes", True),
    ],
)
def test_unknown_follows_the_truth_tables(text, expected):
    assert holds(text, yes=True, no=False) is expected


def test_and_binds_closer_than_or_and_not_looser_than_comparison():
    assert holds("a or b and c", a=True, b=False, c=False) is True
    assert holds("(a or b) and c", a=True, b=False, c=False) is False
    assert holds("not n > 1", n=0) is True
    assert holds("n == 1 + 2 * 3", n=7) is True
    assert holds("n == (1 + 2) * 3", n=9) is True


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ('x in ["forward", "loss"]', "loss", True),
        ('x in ["forward", "loss"]', "load", False),
        ('x != "forward"', "load", True),
        ("x == -9", -9, True),
        ("x <= 0.95", 0.95, True),
        ("x == 'a'", "a", True),
        ("x == true", "after_work", False),
        ('x == "1"', 1, None),
        ("x > 1", "text", None),
        ("x > 1", True, None),
        ("x", 3, None),
        ("x < 1", float("nan"), None),
        ("not x < 1", float("nan"), None),
        ("x * 2 > 1", 10**400, None),
    ],
)
def test_values_of_another_kind_decide_nothing(text, value, expected):
    assert holds(text, x=value) is expected


def test_a_list_valued_fact_equals_each_of_its_members():
    assert holds('s == "ddp"', s=("ddp", "zero2")) is True
    assert holds('s != "ddp"', s=("ddp", "zero2")) is False
    assert holds('s in ["fsdp1", "zero2"]', s=("ddp", "zero2")) is True
    assert holds("3 in s", s=(1, 3)) is True
    assert holds('s == "ddp"', s=()) is False


def test_rounded_numbers_closer_than_half_a_percent_are_unknown():
    assert holds("x > 1000", x=1004, rounded=["x"]) is None
    assert holds("x > 1000", x=1006, rounded=["x"]) is True
    assert holds("x > 1000", x=1004) is True
    assert holds("x == 1000", x=1000, rounded=["x"]) is None
    assert holds("x == 2000", x=1000, rounded=["x"]) is False
    assert holds("x > 2 * y", x=2008, y=1000, rounded=["y"]) is None
    assert holds("x > 2 * y", x=2012, y=1000, rounded=["y"]) is True


def test_names_are_all_names_of_the_condition():
    expression = parse('a.b > 1 and (c.d == "x" or not e.f) and g in h.i')
    assert expression.names == {"a.b", "c.d", "e.f", "g", "h.i"}


def test_unknowns_are_the_names_that_still_matter():
    expression = parse("a and (b or c > d)")
    assert expression.unknowns(Known({})) == {"a", "b", "c", "d"}
    assert expression.unknowns(Known({"a": True, "c": 1, "d": 2})) == {"b"}
    assert expression.unknowns(Known({"a": True, "b": False, "d": 2})) == {"c"}
    assert expression.unknowns(Known({"a": False})) == frozenset()
    assert expression.unknowns(Known({"a": True, "b": True})) == frozenset()


@pytest.mark.parametrize(
    ("text", "column", "part"),
    [
        ("a == b == c", 8, "chain"),
        ("a < b in c", 7, "chain"),
        ("", 1, "the end"),
        ("a and", 6, "the end"),
        ("a.b(1)", 4, "found '('"),
        ("a; b", 2, "unexpected"),
        ("a.", 2, "unexpected"),
        ("(a", 3, "`)`"),
        ("a b", 3, "found 'b'"),
        ("1", 1, "not a condition"),
        ("a + 1", 1, "not a condition"),
        ("a and 3", 7, "compare it"),
        ('not "x"', 5, "compare it"),
        ('a < "x"', 5, "compares numbers"),
        ("a * true > 1", 5, "needs numbers"),
        ("a in 3", 6, "list"),
        ("a == [1, 2]", 6, "right of `in`"),
        ("a in []", 6, "empty list"),
        ("a in [b]", 7, "a literal"),
        ("1 < 2", 3, "constants"),
        ("a == 1e", 6, "unexpected"),
        ("a == 12345678901234567890", 6, "unexpected"),
        ("__import__('os')", 11, "found '('"),
    ],
)
def test_what_leaves_the_grammar_is_refused_with_its_column(text, column, part):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert caught.value.column == column
    assert part in caught.value.message


@pytest.mark.parametrize("text", ["(" * 21 + "a" + ")" * 21, "not " * 21 + "a"])
def test_depth_is_bounded(text):
    with pytest.raises(ExpressionError, match="nested deeper"):
        parse(text)


def test_length_is_bounded():
    with pytest.raises(ExpressionError, match="at most 2000 characters"):
        parse(" or ".join(["a"] * 600))


@given(st.text(alphabet="ab.1 ()[]<>=!+*'\"notrue,", max_size=40))
def test_any_text_gives_an_expression_or_a_column(text):
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert 1 <= error.column <= len(text) + 1
    else:
        assert expression.evaluate(Known({})) is None or not expression.unknowns(Known({}))


_BOOLEAN = st.recursive(
    st.sampled_from(["a", "b", "c", "True", "False"]),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not {text}" if " " not in text else f"not ({text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"),
    ),
    max_leaves=8,
)


@given(_BOOLEAN, st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_with_everything_known_it_is_ordinary_logic(text, values):
    known = dict(zip("abc", values, strict=True))
    python = eval(compile(ast.parse(text, mode="eval"), "", "eval"), {}, known)  # noqa: S307
    assert parse(text.replace("True", "true").replace("False", "false")).evaluate(Known(known)) is python


def test_a_condition_is_parsed_once():
    assert parse("a.b > 1") is parse("a.b > 1")
