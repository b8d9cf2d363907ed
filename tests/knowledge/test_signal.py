from textwrap import dedent

import pytest

from firstfault.errors import KnowledgeError
from firstfault.knowledge.problems import Problems
from firstfault.knowledge.signal import load_signals, read_signals
from firstfault.knowledge.signal_match import convert, match_text

OOM = r'''
# One emitter.
[[signal]]
id      = "torch.cuda.oom"
event   = "cuda.out_of_memory"
role    = "initiating"
class   = "device_oom"
text    = 'CUDA out of memory. Tried to allocate {requested:size}.'
then    = ['GPU {device:int} has a total capac{_:word} of {total:size} of which {free:size} is free.',
           'this process has {process:size} memory in use.']
facts   = { "oom.requested_bytes" = "{requested}", oom.device = "{device}", oom.allocator = "caching" }
emitter = "torch >= 2.1"
benign  = ['RuntimeError: CUDA out of memory']

[[signal.sample]]
requested = 2147483648
device    = 0
line      = """
OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\
 GPU 0 has a total capacty of 23.69 GiB of which 512.00 MiB is free."""
'''


def signal(text=OOM):
    problems = Problems()
    (found,) = read_signals(text, "signals/torch.toml", problems)
    problems.raise_if_any()
    return found


def faults(text):
    problems = Problems()
    read_signals(dedent(text), "signals/x.toml", problems)
    with pytest.raises(KnowledgeError) as caught:
        problems.raise_if_any()
    return str(caught.value)


def test_a_signal_is_read_whole():
    found = signal()
    assert found.literal == "CUDA out of memory. Tried to allocate "
    assert found.facts == {"oom.requested_bytes": "{requested}", "oom.device": "{device}", "oom.allocator": "caching"}
    assert found.holes == {"requested": "size", "device": "int", "total": "size", "free": "size", "process": "size"}
    assert (found.event, found.fault_class, found.source) == ("cuda.out_of_memory", "device_oom", "signals/torch.toml:3")


def test_event_defaults_to_the_id_and_class_to_none():
    found = signal("[[signal]]\nid='a.b'\nrole='context'\ntext='a longer text'\nsample=[{line='a longer text'}]\n")
    assert (found.event, found.fault_class, found.status) == ("a.b", None, "stable")


def test_continuations_read_on_in_the_following_lines_and_may_be_absent():
    captures = match_text(
        signal(),
        "CUDA out of memory. Tried to allocate 594.00 MiB. ",
        "GPU 3 has a total capacity of 80 GiB of which 1 GiB is free.\nOf it, this process has 70 GiB memory in use.",
    )
    assert captures["device"] == 3 and captures["process"] == 70 << 30
    assert match_text(signal(), "CUDA out of memory. Tried to allocate 594.00 MiB.") == {"requested": 594 << 20}
    assert match_text(signal(), "out of memory") is None


def test_continuations_do_not_read_into_the_next_event():
    captures = match_text(
        signal(),
        "CUDA out of memory. Tried to allocate 1.00 MiB.",
        "x\nCUDA out of memory. Tried to allocate 2.00 MiB. GPU 3 has a total capacity of 80 GiB of which 1 GiB is free.",
    )
    assert captures == {"requested": 1 << 20}


def test_conversion_gives_bytes_and_seconds():
    assert convert("size", "1.5 KiB") == 1536
    assert convert("duration", "600040 milliseconds") == pytest.approx(600.04)
    assert convert("duration", "1:30:05.5") == 5405.5
    assert convert("rank", "7") == 7
    assert convert("float", "2.5e-3") == 0.0025
    assert convert("int", "x") is None
    assert convert("word", "x") == "x"


def test_a_sample_of_several_lines_is_matched_from_any_of_them():
    found = signal(
        "[[signal]]\nid='a'\nrole='context'\ntext='first text {n:int}'\nthen=['second {m:int}']\n"
        "sample=[{line='noise\\nfirst text 1\\nsecond 2', n=1, m=2}]\n".replace("'noise", '"noise').replace("2', n", '2", n')
    )
    assert found.samples[0].captures == {"n": 1, "m": 2}


def test_an_own_literal_must_stand_in_every_match():
    base = """
        [[signal]]
        id      = 'a'
        role    = 'context'
        text    = 'common words {n:int} rare phrase'
        sample  = [{ line = 'common words 1 rare phrase' }]
        literal = 'LITERAL'
    """
    assert signal(base.replace("LITERAL", "rare phrase")).literal == "rare phrase"
    assert "signals/x.toml:7: the literal 'other phrase' does not stand" in faults(base.replace("LITERAL", "other phrase"))
    assert "fewer than 6 bytes" in faults(base.replace("LITERAL", "rare"))


def test_every_error_is_reported_with_its_line():
    message = faults(
        """
        title = "x"

        [[signal]]
        id     = "a.b"
        role   = "main"
        text   = 'loss is {loss:float} now'
        sample = [{ line = 'loss is bad now' }, { loss = 1.0 }]
        colour = "red"

        [[signal]]
        id     = "A-b"
        role   = "context"
        text   = 'abc {x:float}'
        facts  = { "a.b" = "{y}" }
        sample = []
        """
    )
    for line in (
        "signals/x.toml:2: unknown key `title` in the file",
        "signals/x.toml:6: `role` is 'main'",
        "signals/x.toml:8: a sample lacks `line`",
        "signals/x.toml:9: unknown key `colour` in [[signal]]",
        "signals/x.toml:12: `id` must be dotted lower case",
        "signals/x.toml:14: the longest literal 'abc ' has fewer than 6 bytes",
        "signals/x.toml:15: `facts`: a.b names `y`, which is no hole",
        "signals/x.toml:16: a signal needs at least one sample",
    ):
        assert line in message


def test_samples_must_match_and_benign_lines_must_not():
    base = "[[signal]]\nid = 'a'\nrole = 'context'\ntext = 'value is {n:int}'\n"
    assert "x.toml:5: does not match its sample 'value: 1'" in faults(base + "sample = [{ line = 'value: 1' }]")
    assert "x.toml:5: sample gives n = 1, not 2" in faults(base + "sample = [{ line = 'value is 1', n = 2 }]")
    assert "states `m`, which is no hole" in faults(base + "sample = [{ line = 'value is 1', m = 2 }]")
    text = base + "sample = [{ line = 'value is 1' }]\nbenign = ['the value is 3']"
    assert "x.toml:6: matches the benign line 'the value is 3'" in faults(text)


def test_broken_toml_names_the_line():
    assert faults("\n\n[[signal]]\nid = \n").startswith("signals/x.toml:4: no valid TOML")


def test_load_signals_reads_a_file(tmp_path):
    path = tmp_path / "signals" / "torch.toml"
    path.parent.mkdir()
    path.write_text(OOM, encoding="utf-8")
    assert [found.source for found in load_signals(path)] == ["signals/torch.toml:3"]
    path.write_text("[[signal]]\nid = 3\n", encoding="utf-8")
    with pytest.raises(KnowledgeError, match=r"signals/torch.toml:2: `id` must be a string"):
        load_signals(path)
