import pytest

from firstfault.errors import UsageError
from firstfault.knowledge.lint import lint
from firstfault.knowledge.pack import compile_pack
from firstfault.knowledge.scaffold import new_entry
from knowledge.knowledge_samples import write_tree

FILE = "encyclopedia/launch/two-words.md"


def test_the_skeleton_compiles_and_the_lint_says_what_is_left(tmp_path):
    root = write_tree(tmp_path)
    path = new_entry(root, "two-words", "launch", "cuda-oom", 'It says "no"')
    assert path == root / FILE
    pack = compile_pack(root)
    assert (pack.entries["two-words"].title, pack.entries["two-words"].status) == ('It says "no"', "preview")
    errors = [issue for issue in lint(pack) if issue.severity == "error"]
    assert {issue.where.partition(":")[0] for issue in errors} == {FILE}
    left = " ".join(issue.message for issue in errors)
    for part in (
        "`fill.requirement` is neither",
        "`fill.evidence` is neither",
        "<fill: the mechanism",
        "<fill: a log that this entry",
    ):
        assert part in left


def test_a_filled_skeleton_passes_the_lint(tmp_path):
    root = write_tree(tmp_path)
    path = new_entry(root, "two-words", "launch", None, "Two words")
    text = (
        path.read_text(encoding="utf-8")
        .replace("fill.requirement", "script.retain_graph")
        .replace("fill.evidence", "torch.cuda.oom")
    )
    lines = [
        line.split("<fill:")[0] + "filled" + line.split(">", 1)[1] if "<fill:" in line else line for line in text.splitlines()
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert [issue for issue in lint(compile_pack(root)) if issue.severity == "error"] == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("../x", "launch", None, "t"), "the id of an entry"),
        (("x", "la unch", None, "t"), "the category of an entry"),
        (("x", "launch", "UP", "t"), "the parent of an entry"),
        (("x", "launch", "nobody", "t"), "the parent `nobody` is no entry"),
        (("x", "launch", None, "two\nlines"), "a title of one line"),
        (("x", "launch", None, " "), "a title of one line"),
        (("cuda-oom", "launch", None, "t"), "exists already"),
    ],
)
def test_what_cannot_be_made_is_refused(tmp_path, values, message):
    root = write_tree(tmp_path)
    with pytest.raises(UsageError, match=message):
        new_entry(root, *values)


def test_outside_of_a_source_tree_it_says_so(tmp_path):
    with pytest.raises(UsageError, match="no encyclopedia here"):
        new_entry(tmp_path, "x", "launch", None, "t")
