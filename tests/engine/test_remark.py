"""A line that speaks of a failure which is not here is the answer only where nothing better is."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

PACK = load_pack()
NOTE = "CUDA kernel errors might be asynchronously reported at some other API call.\n"
CLEANUP = "[88121.402117] NVRM: Xid (PCI:0000:3b:00): 45, pid=51822, name=python3, Ch 00000008\n"
STEPS = "".join(f"step {n}/500 loss 2.1 0.41 s/it\n" for n in range(40, 60))


def _diagnose(folder: Path, text: str):
    (folder / "run.log").write_text(text, encoding="utf-8")
    return investigate(gather([folder], PACK), PACK)


@pytest.mark.parametrize(("text", "entry"), [(NOTE, "cuda-async-traceback"), (CLEANUP, "xid-cleanup-report")])
def test_alone_it_says_who_reported_and_asks(tmp_path: Path, text: str, entry: str) -> None:
    found = _diagnose(tmp_path, text)
    assert (found.verdict, found.entry) == ("undetermined", entry)
    assert found.missing
    assert found.initiating is None or found.initiating.rank is None


@pytest.mark.parametrize("text", [NOTE, CLEANUP])
def test_a_run_that_goes_on_did_not_fail(tmp_path: Path, text: str) -> None:
    assert _diagnose(tmp_path, text + STEPS).verdict == "no_failure"


def test_the_error_itself_is_the_answer(tmp_path: Path) -> None:
    found = _diagnose(tmp_path, "RuntimeError: CUDA error: unspecified launch failure\n" + NOTE)
    assert found.entry == "cuda-launch-failure"


def test_the_last_line_of_an_exception_alone_asks_for_the_rest(tmp_path: Path) -> None:
    found = _diagnose(tmp_path, "ValueError: too many values to unpack (expected 2)\n")
    assert (found.verdict, found.entry) == ("undetermined", "python-exception")
    assert found.missing[0].fact == "exc.root_type"


def test_a_lost_gpu_without_a_run_is_the_answer(tmp_path: Path) -> None:
    text = "Unable to determine the device handle for GPU 0000:8C:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    found = _diagnose(tmp_path, text)
    assert found.entry == "gpu-fell-off-bus"
