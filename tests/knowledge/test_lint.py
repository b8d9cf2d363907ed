import pytest

from firstfault.knowledge.lint import lint
from firstfault.knowledge.pack import compile_pack
from knowledge.knowledge_samples import ENTRIES, EXPLAINS, FACTS, SIGNALS, entry_text, write_tree

FILE = "encyclopedia/memory/oom-forward.md"


def issues(root, options=frozenset(), **files):
    return lint(compile_pack(write_tree(root, **files)), options)


def entries_with(old, new):
    assert old in ENTRIES["oom-forward"]
    return {**ENTRIES, "oom-forward": ENTRIES["oom-forward"].replace(old, new, 1)}


def test_a_sound_tree_has_no_issue(tmp_path):
    assert issues(tmp_path) == []


@pytest.mark.parametrize(("role", "warned"), [("context", True), ("progress", False)])
def test_a_short_literal_that_is_searched_for_everywhere_is_warned_of(tmp_path, role, warned):
    short = f"[[signal]]\nid = 'short'\nrole = '{role}'\ntext = 'aborts!'\nsample = [{{ line = 'aborts!' }}]\n"
    found = [issue.severity for issue in issues(tmp_path, signals=SIGNALS + short) if "'aborts!' has fewer" in issue.message]
    assert found == ["warning"] * warned


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('oom.phase == "forward"', "oom.fase == 1", "`oom.fase` is neither a fact"),
        (
            'oom.phase == "forward"',
            'oom.phase == "foreward"',
            "`oom.phase` is never 'foreward'; its values: forward, optimizer",
        ),
        ('oom.phase == "forward"', 'oom.phase in ["forward", "step"]', "`oom.phase` is never 'step'"),
        ('oom.phase == "forward"', "oom.phase == true", "`oom.phase` is never True"),
        ('oom.phase == "forward"', "oom.phase", "`oom.phase` has the type enum: alone it is no condition"),
        ('oom.phase == "forward"', "not oom.requested_bytes", "`oom.requested_bytes` has the type bytes: alone"),
        ('oom.phase == "forward"', "oom.phase > 1", "`oom.phase` has the type enum: it is no number"),
        ('oom.phase == "forward"', "script.retain_graph == 1", "`script.retain_graph` has the type bool: 1 is none"),
        ('oom.phase == "forward"', "torch.cuda.oom == 1", "`torch.cuda.oom` is an event"),
        ('oom.phase == "forward"', 'fault.class == "device_ooom"', "`fault.class` is never 'device_ooom'"),
        ('refines  = "cuda-oom"', 'refines  = "cpu-oom"', "the parent `cpu-oom` is no entry"),
        ('since    = "0.1"', 'also_under = ["nothing"]', "the parent `nothing` is no entry"),
        ('since    = "0.1"', 'also_under = ["cuda-oom"]', "`also_under` names the entry itself or the parent"),
        ('since    = "0.1"', 'related = ["later"]', "`related` names `later`, which is no entry"),
        ("decisive = true", "weight = 3", "without a decisive condition it is never established"),
        ('says     = "{oom.requested_bytes} were', 'says     = "{oom.size} were', "the hole {oom.size} names no fact"),
        ('says     = "The {oom.phase}', 'says     = "The {log}', "the hole {log} names no fact"),
        ('run    = "{log}"', 'run    = "{logs}"', "the hole {logs} names no fact"),
        ('says     = "{oom.requested_bytes} were asked for."\n', "", "the condition has no `says`"),
        ("expect=oom-forward:established", "expect=cuda-oom", "no test that `oom-forward` must win"),
        ("expect=none", "expect=oom-forward", "no near miss"),
        ("expect=none", "expect=oom-backward", "`oom-backward` is no entry"),
        ("expect=none", "expect=missing:oom.fase", "`oom.fase` is no fact"),
        ("```diff torch", "```diff lightning", "the fix `less` has no code block for `torch`"),
        ("```diff torch\n-batch = 8\n+batch = 4\n```\n", "", "the fix `less` shows no change"),
        ('verify = "runs"\n', "", "the fix `less` names no verification"),
        ("Memory is finite.", "<fill: the mechanism>", "left to fill: <fill: the mechanism>"),
    ],
)
def test_an_issue_names_file_and_line(tmp_path, old, new, message):
    found = [issue for issue in issues(tmp_path, entries=entries_with(old, new)) if message in issue.message]
    assert found
    file, _, line = found[0].where.partition(":")
    assert file == FILE and int(line) >= 1


def test_an_entry_that_nothing_opens_is_reported(tmp_path):
    text = ENTRIES["oom-forward"]
    start, end = text.index("[[requires]]"), text.index("[[evidence]]")
    found = issues(tmp_path, entries={**ENTRIES, "oom-forward": text[:start] + text[end:]})
    assert any("nothing opens the entry" in issue.message for issue in found)


class TestSiblings:
    def pairs(self, root, **entries):
        found = issues(root, entries={"cuda-oom": ENTRIES["cuda-oom"], **entries})
        return [issue for issue in found if "no condition separates" in issue.message]

    def test_equal_conditions_are_reported_both_ways(self, tmp_path):
        found = self.pairs(
            tmp_path,
            a=entry_text("a", 'oom.phase == "forward"', refines="cuda-oom"),
            b=entry_text("b", 'oom.phase == "forward"', refines="cuda-oom"),
        )
        assert [issue.where for issue in found] == ["encyclopedia/memory/a.md:1", "encyclopedia/memory/b.md:1"]
        assert found[0].severity == "error"

    def test_a_sibling_that_always_comes_along_is_reported_once(self, tmp_path):
        found = self.pairs(
            tmp_path,
            a=entry_text(
                "a", 'oom.phase == "forward" and script.retain_graph', refines="cuda-oom", evidence="script.retain_graph"
            ),
            b=entry_text("b", 'oom.phase in ["forward", "optimizer"]', refines="cuda-oom", evidence="script.retain_graph"),
        )
        assert ["`a` from `b`" in issue.message for issue in found] == [True]

    def test_a_fallback_competes_with_fallbacks_only(self, tmp_path):
        a = entry_text("a", 'oom.phase == "forward"', refines="cuda-oom")
        b = entry_text("b", 'oom.phase == "forward"', refines="cuda-oom").replace("status", "fallback = true\nstatus", 1)
        assert self.pairs(tmp_path / "1", a=a, b=b) == []
        both = a.replace("status", "fallback = true\nstatus", 1)
        assert len(self.pairs(tmp_path / "2", a=both, b=b)) == 2

    def test_entries_that_hang_under_a_second_parent_are_siblings_there(self, tmp_path):
        other = entry_text("other", 'oom.phase == "forward"', evidence="script.retain_graph")
        a = entry_text("a", 'oom.phase == "forward"', refines="other").replace("status", 'also_under = ["cuda-oom"]\nstatus', 1)
        b = entry_text("b", 'oom.phase == "forward"', refines="cuda-oom")
        assert len(self.pairs(tmp_path, other=other, a=a, b=b)) == 2

    def test_preview_entries_only_warn(self, tmp_path):
        a = entry_text("a", 'oom.phase == "forward"', refines="cuda-oom")
        b = entry_text("b", 'oom.phase == "forward"', refines="cuda-oom").replace('"stable"', '"preview"')
        assert {issue.severity for issue in self.pairs(tmp_path, a=a, b=b)} == {"warning"}

    def test_an_entry_that_never_holds_is_reported(self, tmp_path):
        a = entry_text("a", 'oom.phase == "forward" and oom.phase == "optimizer"', refines="cuda-oom")
        found = issues(tmp_path, entries={"cuda-oom": ENTRIES["cuda-oom"], "a": a})
        assert [issue.severity for issue in found if "no set of facts" in issue.message] == ["warning"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"device_oom"', '"gpu_oom"', "`gpu_oom` is no class"),
        ('"oom.requested_bytes"', '"oom.size"', "`facts` sets `oom.size`, which is no fact"),
        ('"{requested}"', '"much"', "`oom.requested_bytes` has the type bytes: 'much' is none"),
        ("{requested:size}", "{requested:word}", "a capture of the kind `word` is none"),
        ('role = "initiating"', 'event = "oom.phase"\nrole = "initiating"', "is an event and a fact with a value"),
    ],
)
def test_signals_agree_with_facts_and_classes(tmp_path, old, new, message):
    signals = SIGNALS.replace(old, new, 1).replace(", requested = 12582912", "").replace("12 MiB", "12MiB")
    found = issues(tmp_path, signals=signals)
    assert [issue.where for issue in found if message in issue.message] == ["signals/torch.toml:2"]


def test_a_class_that_nothing_carries_is_a_warning_unless_derived(tmp_path):
    found = issues(tmp_path, explains=EXPLAINS.replace("derived = true", ""))
    assert [(issue.severity, "`silent_end`" in issue.message) for issue in found] == [("warning", True)]


def test_facts_are_produced_and_used(tmp_path):
    facts = FACTS + FACTS[FACTS.index("[oom.requested_bytes]") : FACTS.index("[script")].replace("requested", "free")
    found = issues(tmp_path, facts=facts)
    assert [issue.severity for issue in found] == ["warning", "warning"]
    assert "nothing produces `oom.free_bytes`" in found[1].message
    assert "no condition and no text uses `oom.free_bytes`" in found[0].message


def test_options_of_firstfault_must_exist(tmp_path):
    text = "Run `firstfault run --windows 2 --fact a=1 -- train.py --their-own`, then `other --tool`."
    entries = entries_with("Memory is finite.", text)
    found = issues(tmp_path / "1", frozenset({"--fact"}), entries=entries)
    assert [issue.message for issue in found] == ["firstfault has no option `--windows`"]
    assert issues(tmp_path / "2", entries=entries) == []


def test_preview_entry_may_wait_for_a_fact_that_comes_later(tmp_path):
    phase = FACTS[FACTS.index("[oom.phase]") :]
    facts = FACTS.replace(phase, phase.replace("engine/derive/frames", "planned", 1))
    assert facts != FACTS
    entries = entries_with("expect=oom-forward:established", "expect=cuda-oom")
    stable = [issue for issue in issues(tmp_path / "1", entries=entries, facts=facts) if "must win" in issue.message]
    preview = {**entries, "oom-forward": entries["oom-forward"].replace('"stable"', '"preview"')}
    waiting = [issue for issue in issues(tmp_path / "2", entries=preview, facts=facts) if "must win" in issue.message]
    assert [issue.severity for issue in stable] == ["error"]
    assert [issue.severity for issue in waiting] == ["warning"] and "waits for oom.phase" in waiting[0].message
