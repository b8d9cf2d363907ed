from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest import archive as module
from firstfault.ingest.bundle import gather
from firstfault.ingest.discover import discover
from firstfault.knowledge.pack import load_pack

LOG = (
    b"step 1 loss 2.1\nTraceback (most recent call last):\n"
    b'  File "/home/user/t.py", line 9, in step\n    run(batch)\nValueError: odd\n'
)
MODES = {"logs.tar": "w", "logs.tar.gz": "w:gz", "logs.tgz": "w:gz"}


def write_tar(path, files, mode="w"):
    with tarfile.open(path, mode) as archive:
        for name, content in files.items():
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def write_zip(path, files, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write(folder, name, files):
    return write_zip(folder / name, files) if name.endswith(".zip") else write_tar(folder / name, files, MODES[name])


@pytest.mark.parametrize("name", ["logs.zip", *MODES])
def test_members_are_sources_with_their_ranks(tmp_path, name):
    path = write(tmp_path, name, {"attempt_0/3/stderr.log": LOG, "./rank_1.log": b"step 1 loss 2\n", "w.safetensors": b"x"})
    bundle = gather([path], load_pack())
    found = [(report.source.path, report.source.kind) for report in bundle.reports]
    assert found == [(f"{path}!/attempt_0/3/stderr.log", "log"), (f"{path}!/rank_1.log", "log")]
    assert [report.source.place.rank for report in bundle.reports] == [None, 1]
    assert investigate(bundle, load_pack()).entry == "rank-exception"


@pytest.mark.parametrize("name", ["logs.zip", *MODES])
@pytest.mark.parametrize("member", ["/etc/x.log", "../x.log", "a/../../x.log", "C:/x.log", "..\\x.log"])
def test_names_that_lead_out_are_refused(tmp_path, name, member):
    handed, notes = discover([write(tmp_path, name, {member: LOG, "in.log": LOG})])
    assert [item.path.rpartition("!/")[2] for item in handed] == ["in.log"]
    assert "leads out" in notes[0].what


def test_links_and_devices_are_refused(tmp_path):
    link, device = tarfile.TarInfo("link.log"), tarfile.TarInfo("dev.log")
    link.type, link.linkname, device.type = tarfile.SYMTYPE, "/etc/hostname", tarfile.CHRTYPE
    handed, notes = discover([write_tar(tmp_path / "a.tar", {"l": link, "d": device})])
    assert handed == ()
    assert ["link or a device" in note.what for note in notes[:2]] == [True, True]
    info = zipfile.ZipInfo("link.log")
    info.external_attr = 0o120777 << 16
    handed, notes = discover([write_zip(tmp_path / "a.zip", {info: "/etc/hostname"})])
    assert handed == ()
    assert "link" in notes[0].what


@pytest.mark.parametrize("name", ["logs.zip", "logs.tar.gz"])
def test_bombs_are_cut(tmp_path, name, monkeypatch):
    monkeypatch.setattr(module, "MAX_MEMBER_BYTES", 1000)
    monkeypatch.setattr(module, "MAX_KEPT_BYTES", 2500)
    path = write(tmp_path, name, {f"{index}.log": b"0" * 100_000 for index in range(9)})
    handed, notes = discover([path])
    assert [item.size_bytes for item in handed] == [1000, 1000, 500]
    assert "more than is read" in notes[-1].what


def test_the_number_of_members_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_MEMBERS", 3)
    handed, notes = discover([write_zip(tmp_path / "a.zip", {f"{index}.log": "x" for index in range(9)})])
    assert len(handed) == 3
    assert "more than is read" in notes[-1].what


def test_a_header_of_a_tar_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_HEADER_BYTES", 100)
    handed, notes = discover([write_tar(tmp_path / "a.tar", {"x" * 5000: LOG})])
    assert handed == ()
    assert "header" in notes[0].what


@pytest.mark.parametrize("name", ["logs.zip", *MODES])
def test_damage_is_said_and_what_stands_before_it_is_read(tmp_path, name):
    path = write(tmp_path, name, {"a.log": LOG, "b.log": LOG * 500})
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    handed, notes = discover([path])
    assert notes
    assert all(item.data.startswith(b"step 1") or not item.data for item in handed)


def test_a_fix_of_a_member_does_not_apply(tmp_path):
    from firstfault.engine.edit import Change, patch

    yaml = "compute_environment: LOCAL_MACHINE\ndistributed_type: NO\nnum_processes: 1\n"
    bundle = gather([write_zip(tmp_path / "a.zip", {"acc.yaml": yaml})], load_pack())
    made = patch([Change("accelerate", "num_processes", "4")], bundle)
    assert made is not None
    assert not made.applies
