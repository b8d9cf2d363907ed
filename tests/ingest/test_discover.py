from __future__ import annotations

import io
import os
import socket
import threading

import pytest

from firstfault.ingest import discover as module
from firstfault.ingest.discover import discover, natural_key
from firstfault.ingest.open import open_handed


def _names(handed, root):
    return [item.path.removeprefix(f"{root}/") for item in handed]


def test_a_folder_is_read_in_natural_order_without_hidden_and_tool_folders(tmp_path):
    for name in (
        "rank_10.log",
        "rank_2.log",
        ".git/x.log",
        ".hidden.log",
        "__pycache__/y.log",
        "sub/rank_1.log",
        "model.safetensors",
    ):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    handed, notes = discover([tmp_path])
    assert _names(handed, tmp_path) == ["rank_2.log", "rank_10.log", "sub/rank_1.log"]
    assert [item.place.rank for item in handed] == [2, 10, 1]
    assert notes == ()


def test_files_keep_the_order_in_which_they_were_given(tmp_path):
    first, second = tmp_path / "b.log", tmp_path / "a.log"
    first.write_text("1")
    second.write_text("2")
    handed, _ = discover([first, str(second)])
    assert [item.path for item in handed] == [str(first), str(second)]


def test_link_loops_are_cut_and_links_to_files_are_read_once(tmp_path):
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "again.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "dead.log").symlink_to(tmp_path / "gone")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    handed, notes = discover([tmp_path])
    assert _names(handed, tmp_path) == ["a.log"]
    said = {note.where.removeprefix(f"{tmp_path}/"): note.what for note in notes}
    assert "not followed" in said["sub/up"]
    assert "read once" in said["again.log"]
    assert "No such file" in said["dead.log"]


def test_a_pipe_that_is_named_is_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(b"step 1 loss 2.0\n",))
    writer.start()
    handed, notes = discover([pipe])
    writer.join()
    assert (handed[0].data, handed[0].stream, notes) == (b"step 1 loss 2.0\n", None, ())


def test_pipes_of_a_folder_sockets_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        handed, notes = discover([tmp_path, "/dev/zero"])
    assert handed == ()
    said = " ".join(note.what for note in notes)
    assert "named pipe" in said and "socket" in said and "character device" in said


def test_what_is_missing_or_empty_is_said(tmp_path):
    (tmp_path / "empty").mkdir()
    handed, notes = discover([tmp_path / "gone.log", tmp_path / "empty", "bad\0name"])
    assert handed == ()
    assert all(note.fatal for note in notes)
    assert len(notes) == 3


def test_the_number_of_files_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_FILES", 3)
    for index in range(5):
        (tmp_path / f"{index}.log").write_text("x")
    handed, notes = discover([tmp_path])
    assert len(handed) == 3
    assert "more than 3 files" in notes[0].what


def test_standard_input_is_kept_when_small_and_streamed_when_large(monkeypatch):
    handed, _ = discover(["-"], stdin=io.BytesIO(b"hello\n"))
    assert (handed[0].path, handed[0].data, handed[0].stream) == ("-", b"hello\n", None)
    monkeypatch.setattr(module, "STDIN_KEPT_BYTES", 100)
    text = b"line\n" * 1000
    handed, _ = discover(["-"], stdin=io.BytesIO(text))
    with open_handed(handed[0]) as opened:
        assert opened.read() == text


@pytest.mark.parametrize("names", [["rank_10", "rank_9", "rank_1"], ["b2a", "b10a", "b"]])
def test_natural_order(names):
    assert sorted(names, key=natural_key) == sorted(names, key=lambda name: (len(name), name))


def test_digits_of_other_kinds_are_letters():
    assert natural_key("a1²2") < natural_key("a2")
    assert natural_key("rank_٣") > natural_key("rank_2")


def test_an_empty_name_is_not_the_working_directory():
    handed, (note,) = discover([""])
    assert (handed, note.fatal) == ((), True)
