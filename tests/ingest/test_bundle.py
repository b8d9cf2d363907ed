from __future__ import annotations

import gzip
import io

import pytest

from firstfault.errors import UnreadableInputError
from firstfault.ingest.bundle import gather, gather_text
from ingest_pack import PACK

LOG = "[rank0]: step 1/2\n[rank0]: RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB.\n" * 3


def write(folder, name, text):
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_folder_becomes_one_report_a_source(tmp_path):
    write(tmp_path, "logs/r/attempt_0/0/stderr.log", "hello\n")
    write(tmp_path, "logs/r/attempt_0/1/stderr.log", LOG)
    write(tmp_path, "command.txt", "torchrun --nproc-per-node 2 train.py\n")
    bundle = gather([tmp_path], PACK)
    assert [report.source.kind for report in bundle.reports] == ["command", "log", "log"]
    assert [report.source.place.local_rank for report in bundle.reports] == [None, 0, 1]
    assert bundle.reports[2].source.path.startswith(str(tmp_path))
    assert bundle.notes == ()


def test_bad_inputs_are_notes_beside_good_ones(tmp_path):
    good = write(tmp_path, "a.log", LOG)
    empty = write(tmp_path, "empty.log", "")
    cut = write(tmp_path, "cut.log.gz", gzip.compress(LOG.encode() * 3000)[:-20])
    bundle = gather([good, empty, cut, tmp_path / "gone"], PACK)
    assert len(bundle.reports) == 3
    assert bundle.notes[0].where.endswith("gone")
    said = {report.source.path.rpartition("/")[2]: [note.what for note in report.notes] for report in bundle.reports}
    assert said["empty.log"] == ["is empty"]
    assert "archive" in said["cut.log.gz"][0]
    assert not bundle.reports[2].source.ends


def test_nothing_readable_is_an_error_that_says_what_was_wrong(tmp_path):
    empty = write(tmp_path, "empty.log", "")
    with pytest.raises(UnreadableInputError) as raised:
        gather([empty], PACK)
    assert str(raised.value).startswith(f"{empty}: is empty")
    for inputs in ([tmp_path / "gone"], []):
        with pytest.raises(UnreadableInputError):
            gather(inputs, PACK)
    write(tmp_path, "only/x.bin", b"\0\1\2")
    with pytest.raises(UnreadableInputError, match="no file that could be a log"):
        gather([tmp_path / "only"], PACK)


def test_the_same_content_twice_is_read_once(tmp_path):
    write(tmp_path, "a.log", LOG)
    write(tmp_path, "copy.log", LOG)
    bundle = gather([tmp_path], PACK)
    assert [report.source.path.rpartition("/")[2] for report in bundle.reports] == ["a.log"]
    assert "same content" in bundle.notes[0].what


def test_ranks_with_the_same_content_are_both_read(tmp_path):
    write(tmp_path, "rank_0.log", "Killed\n" * 20)
    write(tmp_path, "rank_1.log", "Killed\n" * 20)
    assert [report.source.place.rank for report in gather([tmp_path], PACK).reports] == [0, 1]


def test_standard_input():
    bundle = gather(["-"], PACK, stdin=io.BytesIO(LOG.encode()))
    assert bundle.reports[0].source.path == "-"
    assert bundle.reports[0].ranks == (0,)


def test_a_text_is_a_paste():
    bundle = gather_text(f"Why does it fail?\n\n{LOG}", PACK, name="post")
    assert [report.source.id for report in bundle.reports] == ["post#1", "post#2"]
    assert [report.source.kind for report in bundle.reports] == ["prose", "log"]
    with pytest.raises(UnreadableInputError):
        gather_text(" \n", PACK)


def test_bytes_are_a_text_of_any_packing():
    import gzip

    import firstfault

    log = b'Traceback (most recent call last):\n  File "/x/t.py", line 3, in <module>\n    f()\nValueError: odd\n'
    assert firstfault.diagnose(log).entry == firstfault.diagnose(gzip.compress(log)).entry == "python-exception"
