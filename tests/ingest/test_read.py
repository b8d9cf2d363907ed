from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from firstfault.ingest.exceptions import without_copies
from firstfault.ingest.handed import Handed
from firstfault.ingest.read import read_source
from firstfault.model.event import Place
from firstfault.scan.scanner import Scanner
from ingest_pack import PACK

SCANNER = Scanner(PACK.signals)
NOWHERE = Place()
OOM = "CUDA out of memory. Tried to allocate 2.00 GiB."


def read(text, name="run.log", place=NOWHERE):
    data = text if isinstance(text, bytes) else text.encode()
    return read_source(Handed(path=name, data=data, size_bytes=len(data), place=place), PACK, SCANNER)


def only(text, name="run.log", place=NOWHERE):
    (report,) = read(text, name, place)
    return report


def traceback(kind, message, prefix="", line=10):
    rows = [
        "Traceback (most recent call last):",
        f'  File "/x/train.py", line {line}, in main',
        "    step()",
        f"{kind}: {message}",
    ]
    return "".join(f"{prefix}{row}\n" for row in rows)


def names(report):
    return [(event.name, event.place.rank) for event in report.events]


# --- events of hits


def test_a_hit_in_a_traceback_is_its_exception():
    report = only("start\n" + traceback("torch.OutOfMemoryError", OOM, "[rank3]: "))
    (event,) = report.events
    assert (event.name, event.place.rank, event.traceback, event.quoted) == ("torch.oom", 3, 0, False)
    assert (event.span.line, event.span.offset) == (5, report_offset(report, event))
    assert report.ranks == (3,)
    assert {fact.name: fact.value for fact in report.facts} == {"oom.requested_bytes": 2 << 30, "oom.allocator": "cuda"}
    rounded = {fact.name: fact.rounded for fact in report.facts}
    assert rounded == {"oom.requested_bytes": True, "oom.allocator": False}


def report_offset(report, event):
    return report.tracebacks[event.traceback].root.span.offset


def test_an_exception_that_no_signal_names_is_an_event_by_its_type():
    report = only(traceback("pkg.errors.CustomError", "went wrong", "[rank1]: "))
    (event,) = report.events
    assert (event.name, event.signal, event.role, event.fault_class) == (
        "python.exception",
        "python.traceback",
        "initiating",
        "python_exception",
    )
    assert event.captures == {"exc_type": "pkg.errors.CustomError", "message": "went wrong"}
    assert event.span == report.tracebacks[0].root.span
    collateral = only(traceback("a.ChildFailedError", "")).events[0]
    assert (collateral.role, collateral.fault_class) == ("collateral", "launcher_report")


def test_the_root_of_a_chain_decides():
    chain = (
        traceback("KeyError", "'labels'")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + traceback("RuntimeError", "Connection closed by peer", line=20)
    )
    report = only(chain)
    assert [event.name for event in report.events] == ["python.exception", "peer.gloo"]
    assert report.events[0].captures["exc_type"] == "KeyError"
    assert {event.traceback for event in report.events} == {0}


def test_the_same_exception_printed_twice_by_a_rank_is_one_event_at_the_earlier_place():
    text = traceback("ValueError", "bad") + traceback("ValueError", "bad", "[rank2]: ")
    report = only(text)
    assert [(event.span.line, event.place.rank) for event in report.events] == [(4, 2)]
    report = only(traceback("RuntimeError", OOM) + traceback("RuntimeError", OOM, "[rank2]: "))
    assert [(event.span.line, event.place.rank) for event in report.events] == [(4, 2)]


def test_the_same_exception_after_the_launcher_lost_its_workers_is_another_one():
    report = only(traceback("ValueError", "bad", "[rank2]: ") * 2)
    (first,) = report.events
    second = replace(first, span=report.tracebacks[1].root.span, traceback=1)
    gone = replace(first, name="launcher.worker_failed", span=report.tracebacks[1].root.frames[0].span, traceback=None)
    assert without_copies([first, second], report.tracebacks) == [first]
    assert without_copies([first, gone, second], report.tracebacks) == [first, gone, second]


def test_ranks_that_fail_alike_stay_apart():
    text = "".join(traceback("ValueError", "bad", f"[rank{rank}]: ") for rank in (0, 1))
    assert names(only(text)) == [("python.exception", 0), ("python.exception", 1)]
    assert len(only(traceback("ValueError", "bad") * 2).events) == 2
    assert len(only(traceback("ValueError", "bad", "[rank0]: ") + traceback("ValueError", "bad", "[rank0]: ", 11)).events) == 2


def test_interleaved_tracebacks_give_each_rank_its_own_event():
    rows = zip(
        traceback("torch.OutOfMemoryError", OOM, "[rank0]: ").splitlines(),
        traceback("RuntimeError", "Connection closed by peer", "[rank1]: ").splitlines(),
        strict=True,
    )
    text = "".join(f"{a}\n{b}\n" for a, b in rows)
    assert names(only(text)) == [("torch.oom", 0), ("peer.gloo", 1)]


def test_a_hit_in_the_message_belongs_to_the_traceback():
    report = only(traceback("RuntimeError", "failed:") + "  Connection closed by peer\n\nConnection closed by peer\n")
    assert [(event.name, event.traceback) for event in report.events] == [("peer.gloo", 0), ("peer.gloo", None)]


# --- what is no event


@pytest.mark.parametrize(
    "text",
    [
        f'Traceback (most recent call last):\n  File "/x/t.py", line 3, in f\n    raise RuntimeError("{OOM}")\n',
        f"+ python train.py --note '{OOM}'\n",
        f"$ grep '{OOM}' x.log\n",
        f"torchrun --nproc-per-node 2 train.py --message '{OOM}'\n",
        f"--> 14 raise ValueError('{OOM}')\n",
    ],
)
def test_source_lines_commands_and_listings_are_no_events(text):
    assert [event.name for report in read("start\n" + text) for event in report.events if event.name == "torch.oom"] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("acc.yaml", f"distributed_type: NO\nnum_processes: 1\nnote: '{OOM}'\n"),
        ("train.py", f"import os\nimport torch\n# {OOM}\n"),
        ("job.sh", f"#!/bin/bash\n# {OOM}\npython train.py\n"),
        ("env.txt", f"A=1\nB={OOM}\nC=3\nD=4\nE=5\n"),
    ],
)
def test_configurations_code_and_scripts_hold_no_events(name, text):
    assert only(text, name).events == ()


def test_prose_only_repeats():
    report = only(f"When I train on my box it says {OOM} What does my torch version 2.4 need?\n", "q.txt")
    assert report.source.kind == "prose"
    assert all(event.quoted for event in report.events)
    assert {fact.basis for fact in report.facts} == {"told"}


@pytest.mark.parametrize("row", ["- If you see `{}` then restart.", "| `{}` | restart |", "12. `{}`: see the FAQ"])
def test_inline_code_of_a_list_or_a_table_is_quoted(row):
    text = row.format(f"RuntimeError: {OOM}")
    assert all(not report.events for report in read(f"step 831/845 loss=2.408\n{text}\n"))


def test_an_ignored_exception_is_quoted():
    text = "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + traceback("OSError", "handle is closed")
    assert [event.quoted for event in only(text).events] == [True]


def test_a_message_inside_an_ignored_exception_gives_no_facts():
    text = "Exception ignored in: <function Pool.__del__ at 0x7f>\n" + traceback("torch.OutOfMemoryError", OOM)
    report = only(text)
    assert [event.quoted for event in report.events] == [True]
    assert report.facts == ()


def test_an_ignored_exception_of_one_rank_says_nothing_of_another():
    ignored = "[rank1]: Exception ignored in: <function Pool.__del__ at 0x7f>\n"
    report = only(ignored + traceback("ValueError", "bad", "[rank0]: ") + traceback("OSError", "handle", "[rank1]: "))
    assert [(event.place.rank, event.quoted) for event in report.events] == [(0, False), (1, True)]


# --- places


def test_file_names_give_the_rank_and_lines_win():
    report = only("a\n" + traceback("ValueError", "bad"), "rank_3.log", Place(rank=3))
    assert names(report) == [("python.exception", 3)]
    report = only("[rank5]: a\n" + traceback("ValueError", "bad", "[rank5]: "), "rank_3.log", Place(rank=3))
    assert names(report) == [("python.exception", 5)]
    assert report.source.place.rank == 5
    assert "the lines count" in report.notes[0].what


def test_torchrun_folders_give_a_local_rank_that_lines_map():
    place = Place(local_rank=1, attempt=0)
    report = only("hello\n" + traceback("ValueError", "x"), "logs/attempt_0/1/stderr.log", place)
    assert (report.events[0].place.local_rank, report.events[0].place.rank) == (1, None)
    report = only("[rank9]: hello\n" + traceback("ValueError", "x"), "logs/attempt_0/1/stderr.log", place)
    assert (report.events[0].place.rank, report.source.place.rank, report.ranks) == (9, 9, (9,))


def test_srun_labels_are_ranks_unless_they_are_nodes():
    text = "".join(f"{index % 4}: epoch {index}\n" for index in range(40)) + f"2: {OOM}\n"
    assert names(only(text)) == [("torch.oom", 2)]
    text = "".join(f"{index % 2}: [rank{index % 8}]: epoch {index}\n" for index in range(40)) + f"1: {OOM}\n"
    report = only(text)
    assert names(report) == [("torch.oom", None)]
    assert "taken for a node" in report.notes[0].what


# --- progress and ends


def test_progress_counts_steps_for_each_rank():
    text = "".join(f"[rank{rank}] INFO step {step}/40 loss=1\n" for step in range(8) for rank in range(2))
    report = only(text)
    found = {(one.rank, one.lines, one.first_step, one.last_step, one.total_steps) for one in report.progress}
    assert found == {(0, 8, 0, 7, 40), (1, 8, 0, 7, 40)}
    assert report.progress[1].last_span.line == 16


def test_progress_behind_srun_labels():
    text = "".join(f"{rank}: epoch a, step {step}/40\n" for step in range(8) for rank in range(2))
    assert [(one.rank, one.lines, one.last_step) for one in only(text).progress] == [(0, 8, 7), (1, 8, 7)]


def test_local_progress_keeps_its_local_rank():
    (one,) = only("[default3]:x step 1/9\n").progress
    assert (one.rank, one.local_rank) == (None, 3)


def test_the_last_line_of_each_rank_is_kept():
    report = only("[rank0]: a\n[rank1]: b\n[rank0]: c\n\n")
    assert [(end.place.rank, end.text, end.line) for end in report.ends] == [(0, "c", 3), (1, "b", 2)]


def test_a_file_that_stops_in_a_line_has_no_end(tmp_path):
    for text, ends in (("a\nb", False), ("a\nb\n", True)):
        file = tmp_path / "x.log"
        file.write_text(text)
        (report,) = read_source(Handed(path="x.log", location=file), PACK, SCANNER)
        assert report.source.ends is ends
    assert only("a\nb").source.ends  # what is pasted or piped seldom ends with a newline


@pytest.mark.parametrize("first", ['  File "/x/t.py", line 3, in f\n    g()\n', "[...]\n", "... (cut)\n"])
def test_a_log_that_starts_in_the_middle_has_no_beginning(first):
    assert not only(first + "ValueError: x\n").source.begins
    assert only("ValueError: x\n").source.begins


def test_what_tail_shows_has_no_beginning():
    reports = read("$ python train.py 2>&1 | tail -n 3\nValueError: x\n$ python other.py\nfine\n", "terminal.txt")
    assert [report.source.begins for report in reports] == [True, False, True, True]


def test_the_end_of_training_is_an_event():
    assert names(only("training done\n")) == [("run.finished", None)]


# --- pastes


def test_the_parts_of_a_paste_point_into_the_whole():
    config = "distributed_type: NO\nnum_processes: 1\n"
    text = f"Hello, why does it fail?\n\n```yaml\n{config}```\n\n```\n{traceback('RuntimeError', OOM)}```\n"
    reports = read(text, "post.md")
    assert [report.source.kind for report in reports] == ["prose", "accelerate_config", "prose", "log", "prose"]
    assert [report.source.id for report in reports] == [f"post.md#{index}" for index in range(1, 6)]
    log = reports[3]
    assert (log.source.first_line, log.source.first_offset) == (9, text.index("Traceback"))
    (event,) = log.events
    assert (event.span.source, event.span.line) == ("post.md", 12)
    assert text.encode()[event.span.offset :].startswith(b"RuntimeError: CUDA")
    assert reports[1].text == config
    assert {setting.key: (setting.value, setting.span.line) for setting in reports[1].settings} == {
        "distributed_type": (False, 4),
        "num_processes": (1, 5),
    }


def test_configurations_are_kept_as_text_for_fixes_up_to_a_size():
    text = "distributed_type: NO\nnum_processes: 1\n"
    assert only(text, "acc.yaml").text == text
    assert only(text + "# long\n" * 20_000, "acc.yaml").text is None
    assert only("a log line step 1/2\n").text is None


def test_an_error_file_is_read_as_the_lines_it_means():
    message = {
        "message": f"RuntimeError: {OOM}",
        "extraInfo": {"py_callstack": traceback("RuntimeError", OOM), "timestamp": "1742377804"},
    }
    text = json.dumps({"message": message})
    report = only(text, "logs/attempt_0/3/error.json", Place(local_rank=3, attempt=0))
    (event,) = report.events
    assert (event.name, event.place.local_rank, event.place.time.seconds, event.traceback) == ("torch.oom", 3, 1742377804, 0)
    assert text[event.span.offset :].startswith("RuntimeError: CUDA")
    assert report.source.kind == "error_file"


@pytest.mark.parametrize("text", ["", '{"message": {"mess', "[]", "null", '{"message": 3}'])
def test_a_broken_error_file_is_a_note(text):
    report = only(text, "error.json")
    assert report.notes
    assert report.events == ()


# --- robustness


def test_bad_bytes_are_counted_and_the_rest_is_read():
    report = only(b"a \xff\xfe\0\0 start\n" + traceback("RuntimeError", OOM).encode())
    assert names(report) == [("torch.oom", None)]
    said = " ".join(note.what for note in report.notes)
    assert "not UTF-8" in said and "NUL" in said


def test_long_lines_and_progress_bars():
    text = "x" * 1_000_000 + "\n" + "".join(f"\r {i}%|  | step {i}/100" for i in range(100)) + f"\n{OOM}\n"
    report = only(text)
    assert ("torch.oom", None) in names(report)
    assert report.events[0].span.line == 3


def test_windows_line_ends():
    report = only(traceback("RuntimeError", OOM, "[rank1]: ").replace("\n", "\r\n"))
    assert names(report) == [("torch.oom", 1)]
    assert report.tracebacks[0].root.message == OOM


def test_a_large_log_is_read_through_its_windows():
    filler = "some text of the script that is printed again and again\n" * 40_000
    report = only(filler + traceback("RuntimeError", OOM, "[rank1]: ") + filler)
    assert names(report) == [("torch.oom", 1)]
    assert report.events[0].traceback == 0
    assert report.events[0].span.line == 40_004
    assert report.source.lines == 80_004


def test_a_configuration_that_a_command_printed_keeps_the_name_of_its_file():
    config = "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\n"
    reports = read(f"$ head -16 ~/.cache/huggingface/accelerate/default_config.yaml\n{config}", "ls.txt")
    settings = {(one.family, one.key): one for report in reports for one in report.settings}
    named = settings["file", "name"]
    assert (named.value, named.source_id) == ("default_config.yaml", settings["accelerate", "num_processes"].source_id)


@pytest.mark.parametrize(("data", "kind"), [(b"", "empty"), (b"\x7fELF" + bytes(range(256)) * 9, "binary")])
def test_what_is_no_text_says_so(data, kind):
    report = only(data)
    assert report.source.kind == kind
    assert report.notes[0].fatal


def test_holes_of_any_size_hide_nothing(tmp_path):
    hole = b"\0" * 200_000
    (event,) = only(hole + traceback("RuntimeError", OOM).encode() + hole).events
    assert event.span.offset > len(hole)
    report = only(hole)
    assert (report.source.kind, report.notes[0].fatal) == ("empty", True)


def test_wide_text_that_is_none_says_so():
    assert any(note.fatal for note in only("hello\n".encode("utf-32")).notes)


@pytest.mark.parametrize(
    "data",
    ["\ufeff{}".format, lambda text: text.encode("utf-16"), lambda text: gzip.compress(text.encode())],
    ids=["mark", "utf-16", "gzip"],
)
def test_a_text_that_lies_otherwise_in_its_file_is_not_kept_for_fixes(data):
    text = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 4\n"
    assert only(text, "default.yaml").text == text
    report = only(data(text), "default.yaml")
    assert (report.text, len(report.settings)) == (None, 3)


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=600),
    st.sampled_from(["run.log", "pasted.txt", "error.json", "a.yaml", "ds_config.json", "command.txt", "x.py"]),
)
def test_any_bytes_give_reports(data, name):
    assume(not data.startswith((b"\x1f\x8b", b"(\xb5/\xfd")))  # what is packed has another size
    reports = read(data, name)
    assert reports
    assert sum(report.source.size_bytes for report in reports) == len(data)


PIECES = st.sampled_from(
    [
        *("```\n", traceback("RuntimeError", OOM), traceback("ValueError", "x", "[rank1]: "), f"{OOM}\n", "$ torchrun x.py\n"),
        *(
            "distributed_type: NO\nnum_processes: 1\n",
            "Why?\n",
            "\n",
            "[default2]:[rank2]: step 4/40\n",
            "[rank1]: a\n",
            "\r",
            "{\n",
        ),
        "\0",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=12), st.sampled_from(["run.log", "pasted.txt"]))
def test_every_event_points_to_its_line(pieces, name):
    data = "".join(pieces).encode()
    for report in read(data, name):
        for event in report.events:
            assert data[event.span.offset :].decode("utf-8", "replace").replace("\0", "").startswith(
                event.text[:10].replace("\0", "")
            ) or (event.signal == "python.traceback")
            assert data.count(b"\n", 0, event.span.offset) + 1 == event.span.line
