"""What each perturbation of the robustness bench does to the text of a case."""

from __future__ import annotations

import importlib.util
import random
import sys
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "bench" / "perturbations.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_perturbations", _PATH)
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up while it is made.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def _case(bench, logs, **others):
    return bench.CaseFiles({**logs, **others}, frozenset(logs))


def _done(bench, name, case, seed=0):
    return bench.PERTURBATIONS[name](case, random.Random(seed))


@pytest.mark.parametrize(
    ("line", "moved"),
    [
        ("2025-03-04 11:00:30,010 INFO step 1", "2025-03-04 11:02:00,010 INFO step 1"),
        ("2025-03-04T23:57:00Z step", "2025-03-04T23:58:30Z step"),
        ("[rank3]:[E1104 08:41:17.402000 api.cpp:869] [x] down", "[rank3]:[E1104 08:42:47.402000 api.cpp:869] [x] down"),
        ("  time      : 2025-03-04_11:00:30", "  time      : 2025-03-04_11:02:00"),
        ("[11:00:30] loading", "[11:02:00] loading"),
        ("Mar  4 11:00:30 node-1 kernel: oom", "Mar  4 11:02:00 node-1 kernel: oom"),
        ("Timeout(ms)=600000 ran for 00:10:00", "Timeout(ms)=600000 ran for 00:10:00"),
        ("2025-03-04 23:59:30 too near to midnight", "2025-03-04 23:59:30 too near to midnight"),
    ],
)
def test_shifted_line(bench, line, moved):
    assert bench.shift_line(line + "\n", 90) == moved + "\n"


def test_shifted_error_file(bench):
    text = '{"message": {"message": "x", "extraInfo": {"py_callstack": "at 12:00:00", "timestamp": "1741086000"}}}'
    assert bench.shift_text(text, -90) == text.replace("1741086000", "1741085910")


def test_clock_of_one_rank_is_wrong_in_all_its_files(bench):
    logs = {f"logs/attempt_0/{rank}/stderr.log": "2025-03-04 11:00:30 step\n" for rank in range(3)}
    error = {f"logs/attempt_0/{rank}/error.json": '{"timestamp": "1741086030"}' for rank in range(3)}
    case = _case(bench, logs, **error)
    found = _done(bench, "clock off by 90 s", case)
    changed = [path for path in case.texts if found.texts[path] != case.texts[path]]
    assert len(changed) == 2
    assert len({path.split("/")[2] for path in changed}) == 1


def test_clock_of_a_host_is_wrong_in_the_files_of_its_ranks(bench):
    names = [f"node-{rank // 2}-rank-{rank}.log" for rank in range(4)]
    found = _done(bench, "clock off by 90 s", _case(bench, dict.fromkeys(names, "2025-03-04 11:00:30 step\n")))
    moved = [name for name in names if "11:00:30" not in found.texts[name]]
    assert moved in (names[:2], names[2:])


def test_clock_of_one_rank_is_wrong_in_its_lines_of_a_combined_log(bench):
    text = "".join(f"[rank{n % 2}]: 2025-03-04 11:00:3{n} step\n" for n in range(4)) + "2025-03-04 11:00:35 launcher\n"
    found = _done(bench, "clock off by 90 s", _case(bench, {"run.log": text})).texts["run.log"]
    pairs = zip(text.splitlines(), found.splitlines(), strict=True)
    moved = {before[:7] for before, after in pairs if before != after}
    assert moved in ({"[rank0]"}, {"[rank1]"})


def test_nothing_to_shift(bench):
    assert _done(bench, "clock off by 90 s", _case(bench, {"run.log": "2025-03-04 11:00:30 step\n"})) is None


def test_cut_end_keeps_settings_and_loses_short_logs(bench):
    long = "".join(f"line {n}\n" for n in range(20))
    found = _done(bench, "last 12 lines cut", _case(bench, {"a.log": long, "b.log": "x\n" * 12}, **{"c.yaml": "k: 1\n"}))
    assert found.texts == {"a.log": "".join(f"line {n}\n" for n in range(8)), "c.yaml": "k: 1\n"}
    assert _done(bench, "last 12 lines cut", _case(bench, {"b.log": "x\n" * 12}, **{"c.yaml": "k: 1\n"})) is None


def test_removed_files(bench):
    case = _case(bench, {"console.log": "a\n", "rank-0.log": "b\n", "rank-1.log": "c\n"}, **{"ds.json": "{}"})
    assert set(_done(bench, "no console log", case).texts) == {"rank-0.log", "rank-1.log", "ds.json"}
    assert set(_done(bench, "no rank logs", case).texts) == {"console.log", "ds.json"}
    alone = _case(bench, {"console.log": "a\n"})
    assert _done(bench, "no console log", alone) is None
    assert _done(bench, "no rank logs", alone) is None


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("[rank3]: Traceback", "Traceback"),
        ("[default0]:[rank0]: Traceback", "Traceback"),
        ("[trainer1]:step 3", "step 3"),
        ("rank 2: step 3", "step 3"),
        ("[1,3]<stderr>: step", "step"),
        ("[WARNING] rank 2 failed to connect", "[WARNING] rank 2 failed to connect"),
    ],
)
def test_removed_prefix(bench, line, bare):
    assert bench.without_ranks(line + "\n") == bare + "\n"


def test_removed_task_labels(bench):
    assert bench.without_ranks("".join(f"{n}: step 4\n" for n in range(4))) == "step 4\n" * 4
    assert bench.without_ranks("4: step 4\nother\nlines\n") == "4: step 4\nother\nlines\n"


def test_shuffle_stays_inside_a_second_and_keeps_lines_without_time_below_theirs(bench):
    seconds = [f"2025-03-04 11:00:{s:02},{n}00 line\n  below {s} {n}\n" for s in range(3) for n in range(5)]
    text = "head\n" + "".join(seconds)
    found = bench.shuffle_text(text, random.Random(1))
    assert found != text
    assert found == bench.shuffle_text(text, random.Random(1))
    lines = found.splitlines()
    assert lines[0] == "head"
    assert sorted(lines) == sorted(text.splitlines())
    assert [line[:19] for line in lines[1::2]] == [line[:19] for line in text.splitlines()[1::2]]
    for timed, below in zip(lines[1::2], lines[2::2], strict=True):
        assert below == f"  below {int(timed[17:19])} {timed[20]}"


def test_lines_without_times_are_not_shuffled(bench):
    assert _done(bench, "shuffled in a second", _case(bench, {"a.log": "b\na\nc\n"})) is None
