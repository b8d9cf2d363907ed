from __future__ import annotations

import os
import pickle

import pytest

from firstfault.engine.investigate import investigate
from firstfault.ingest.bundle import gather
from firstfault.knowledge.pack import load_pack

PACK = load_pack()


def diagnose(folder, **files):
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return investigate(gather([folder], PACK), PACK)


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("command__txt", "python train.py\n", "a launch command"),
        ("command__txt", "accelerate launch --num_processes 4 train.py\n", "a launch command"),
        ("acc__yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_processes: 4\n", "accelerate"),
        ("error__json", '{"message": {"mess', "an error file that cannot be read"),
        ("env__txt", "torch==2.3.0\naccelerate==1.0\n", "an account of the environment"),
    ],
)
def test_without_a_run_nothing_is_well(tmp_path, name, text, what):
    found = diagnose(tmp_path, **{name: text})
    assert found.verdict == "undetermined"
    assert found.missing[0].fact in ("fault.class", "launch.command")
    assert what in found.cause


def test_an_unreadable_error_file_beside_a_healthy_log_does_not_matter(tmp_path):
    assert (
        diagnose(tmp_path, error__json='{"message": {"mess', run__log="step 1 loss 2.1\nstep 2 loss 2.0\n").verdict
        == "no_failure"
    )


def test_a_refused_dump_shows_nothing_of_who_waits(tmp_path):
    dump = pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [os.getpid]}, protocol=2)
    (tmp_path / "_dump_0").write_bytes(dump)
    found = diagnose(tmp_path, command__txt="python train.py\n")
    assert "_dump_0 is a dump that cannot be read" in found.cause
