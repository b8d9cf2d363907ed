import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.entry import load_entry, read_entry
from firstfault.knowledge.problems import Problems
from knowledge.knowledge_samples import ENTRIES, entry_text

FILE = "encyclopedia/memory/oom-forward.md"


def read(text, file=FILE):
    problems = Problems()
    found = read_entry(text, file, problems)
    problems.raise_if_any()
    return found


def faults(text, file=FILE):
    with pytest.raises(KnowledgeError) as caught:
        read(text, file)
    return str(caught.value)


def line_of(text, part):
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def test_front_matter_and_body_are_read_whole():
    text = ENTRIES["oom-forward"]
    entry, body = read(text)
    assert (entry.id, entry.refines, entry.status, entry.source) == ("oom-forward", "cuda-oom", "stable", FILE)
    assert entry.requires[0].if_ == 'oom.phase == "forward"'
    assert entry.requires[0].where == f"{FILE}:{line_of(text, 'if   =')}"
    assert entry.evidence[0].decisive and entry.fixes[0].stacks == ("torch",) and entry.verify[0].id == "runs"
    assert body.sections["In short"] == "It costs a restart."
    assert body.sections["Fix"] == "Ask for less."
    assert body.fix_texts == {"less": "Halve it."}
    (block,) = body.fixes["less"]
    assert (block.language, block.stack, block.text) == ("diff", "torch", "-batch = 8\n+batch = 4\n")
    assert [(test.kind, test.name, test.expect) for test in body.tests] == [
        ("log", "wins", "oom-forward:established"),
        ("log", "near-miss", "none"),
    ]
    assert body.tests[0].where == f"{FILE}:{line_of(text, 'log wins')}"
    assert body.lines["Fix"] == line_of(text, "## Fix") and body.lines["less"] == line_of(text, "### less")


def test_settings_to_change_and_monitor_are_read():
    text = entry_text("oom-forward", "script.retain_graph").replace(
        "[[verify]]",
        '[[fix.edit]]\nfamily = "accelerate"\nkey = "num_processes"\nvalue = "{oom.phase}"\nadd = true\n\n[[verify]]',
    )
    text = text.replace("+++\n\n# T", '\n[monitor]\nmetric = "m"\nalert = "> 0"\n+++\n\n# T')
    entry, _ = read(text)
    assert (entry.fixes[0].edit[0].key, entry.fixes[0].edit[0].add) == ("num_processes", True)
    assert entry.monitor == {"metric": "m", "alert": "> 0"}


DIFFERENCES = (
    "[[difference]]\nif = 'run.world_size > 1'\nsays = \"Several.\"\ndecisive = true\n\n"
    '[[difference]]\nmore = "train.micro_batch"\nsays = "More."\n\n'
    '[[difference]]\npackage = "torch"\nsince = "2.6"\nuntil = "3"\nsays = "Newer."\n\n'
)


def test_what_explains_that_one_of_two_runs_fails():
    entry, _ = read(entry_text("oom-forward", "script.retain_graph").replace("[[fix]]", f"{DIFFERENCES}[[fix]]", 1))
    several, more, newer = entry.differences
    assert (several.if_, several.decisive, several.says) == ("run.world_size > 1", True, "Several.")
    assert (more.more, more.decisive) == ("train.micro_batch", False)
    assert (newer.package, newer.since, newer.until) == ("torch", "2.6", "3")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('says = "x"', "one of `if`, `more`, `less`, `package` and `differs`"),
        ('more = "a.b"\nless = "c.d"\nsays = "x"', "one of `if`, `more`, `less`, `package` and `differs`"),
        ('package = "torch"\nsays = "x"', "needs `since` or `until`"),
        ('more = "a.b"', "says"),
        ("if = 'run.world_size >'\nsays = \"x\"", "`if`"),
    ],
)
def test_a_wrong_difference_is_refused(rule, message):
    text = entry_text("oom-forward", "script.retain_graph").replace("[[fix]]", f"[[difference]]\n{rule}\n\n[[fix]]", 1)
    assert message in faults(text)


def test_headings_and_marks_inside_fences_are_text():
    text = ENTRIES["oom-forward"].replace("It costs a restart.", "````sh\n## not a section\n```\n````")
    _, body = read(text)
    assert body.sections["In short"] == "```sh\n## not a section\n```\n```"


def test_sources_of_one_test_share_its_name():
    more = "\n```command wins\npython train.py\n```\n\n## Tests\n"
    text = ENTRIES["oom-forward"].replace("\n```log near-miss", "\n```command wins\npython train.py\n```\n\n```log near-miss")
    _, body = read(text)
    assert [(test.kind, test.name, test.expect) for test in body.tests][1] == ("command", "wins", "oom-forward:established")
    assert "stands twice" in faults(ENTRIES["oom-forward"] + more)


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ('id       = "oom-forward"', 'id       = "other"', "id       =", "the id is 'other', the file is named oom-forward.md"),
        ('category = "memory"', 'category = "launch"', "category", "the category is 'launch', the folder memory"),
        ('role     = "initiating"', 'role     = "context"', "role", "`role` is 'context'"),
        ('since    = "0.1"', 'sinse    = "0.1"', "sinse", "unknown key `sinse` in the file"),
        ('== "forward"', '== "forward', "if   =", "`if`: column 14: unexpected"),
        ("decisive = true", "decisive = true\nweight = 2", "weight", "`decisive` and `weight` exclude each other"),
        ("decisive = true", "weight = 5", "weight", "`weight` lies between 1 and 4"),
        ("decisive = true", "veto = true", "veto", "unknown key `veto` in [[evidence]]"),
        ('verify = "runs"', 'verify = "walks"', "verify =", "names the unknown verification `walks`"),
        ("### less", "### more", "### more", "`### more` is no fix of the front matter"),
        ("# Title of oom-forward\n", "# Another title\n", "# Another", "repeats the title"),
        ("## Sources", "## Source", "## Source", "unknown section `Source`"),
        ("## Verify", "## On call", "## On call", "the section `On call` is out of order"),
        ("```diff torch", "```diff torch 2 3", "```diff", "carries `LANGUAGE`"),
        ("```log wins", "```text wins", "```text", "a test fence reads"),
        ("expect=none", "expect=Nothing", "near-miss", "`expect=Nothing`: write an id"),
        ("expect=none", "expect=none:sure", "near-miss", "`expect=none:sure`: write an id"),
        ("all is well\n```", "all is well\n", "near-miss", "a fence that is never closed"),
        ("## In short\n", "stray\n\n## In short\n", "stray", "text before the first section"),
        ("It costs a restart.", "", "## In short", "the section `## In short` is missing or empty"),
        ("Memory is finite.", "#### deep", "####", "no heading of level 4"),
        ('says     = "The', 'says     = "The "The', "says", "no valid TOML"),
    ],
)
def test_errors_name_their_line(old, new, at, message):
    text = ENTRIES["oom-forward"]
    assert old in text
    text = text.replace(old, new, 1)
    found = faults(text)
    assert message in found
    assert f"{FILE}:{line_of(text, at)}: " in found


def test_all_errors_are_collected():
    text = ENTRIES["oom-forward"].replace("since", "sinse").replace("## Sources", "## Source").replace("log wins", "text wins")
    assert faults(text).startswith("4 errors")


def test_text_without_front_matter_is_refused():
    assert f"{FILE}:1: an entry begins with TOML" in faults("# Title\n")
    assert f"{FILE}:1: an entry begins with TOML" in faults("")


def test_load_entry_reads_a_file(tmp_path):
    path = tmp_path / "encyclopedia" / "memory" / "oom-forward.md"
    path.parent.mkdir(parents=True)
    path.write_text(ENTRIES["oom-forward"], encoding="utf-8")
    entry, _ = load_entry(path)
    assert entry.source == FILE
