"""Series of memory in log lines and in tables of ps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.memory_series import MAX_LINES, PRODUCES, read_memory_series
from firstfault.ingest.process_table import read_process_tables
from reader_lines import context, lines

MIB = 1 << 20


def read(text: str) -> dict[str, object]:
    facts = read_memory_series(lines(text), context("run.log", "log"))
    assert {fact.name for fact in facts} <= set(PRODUCES)
    assert all(fact.spans for fact in facts)
    return {fact.name: fact.value for fact in facts}


def steps(form: str, sizes: list[float], every: int = 10) -> str:
    return "\n".join(form.format(step=index * every, size=size) for index, size in enumerate(sizes))


def test_device_memory_that_rises_with_the_steps() -> None:
    found = read(steps("step {step} loss 2.1 mem {size:.2f} GiB", [10 + 0.5 * index for index in range(14)]))
    assert found == {"memory.step_slope_bytes": round(0.05 * 1024 * MIB), "memory.flat_before": False}


def test_flat_device_memory() -> None:
    found = read(steps("[{step}] step={step} gpu_mem=23.{size:.0f} GB", [1, 1, 2, 1, 2, 1, 1, 1, 2, 1, 1, 2]))
    assert found == {"memory.step_slope_bytes": 0, "memory.flat_before": True}


def test_a_rise_that_ends_early_is_warm_up() -> None:
    assert read(steps("step {step} mem {size:.2f} GiB", [2, 4, 6, 8, 10, 12, *[12.0] * 8])) == {}


def test_memory_that_goes_up_and_down_says_nothing() -> None:
    assert read(steps("step {step} mem {size:.2f} GiB", [10, 14, 9, 15, 11, 16, 10, 15, 12, 17, 11, 18])) == {}


def test_too_few_points_say_nothing() -> None:
    assert read(steps("step {step} mem {size:.2f} GiB", [10, 11, 12, 13])) == {}


def test_peaks_limits_and_cached_memory_are_other_figures() -> None:
    for name in ("max mem", "peak memory", "reserved memory", "max_memory_allocated", "free mem", "total memory"):
        assert read(steps(f"step {{step}} {name} {{size:.2f}} GiB", [10 + index for index in range(14)])) == {}


def test_a_second_phase_with_steps_of_its_own_is_not_joined_to_the_first() -> None:
    evaluation = steps("step {step} mem {size:.2f} GiB", [12.0] * 12)
    assert read(steps("step {step} mem {size:.2f} GiB", [4.0] * 3) + "\n" + evaluation)["memory.flat_before"] is True


def test_resident_memory_that_rises() -> None:
    text = "\n".join(f"host rss {40 + 6 * index}.1 GiB" for index in range(5))
    assert read(text) == {"host.rss_growth": "main"}


def test_resident_memory_of_workers() -> None:
    text = "\n".join(f"rss: 8.0 GiB\nworker 0 rss={index}.2 GiB\nworker 1 rss={index}.4 GiB" for index in range(1, 7))
    assert read(text) == {"host.rss_growth": "workers"}


def test_flat_resident_memory() -> None:
    assert read("\n".join("process memory: 8.0 GiB" for _ in range(8))) == {"host.rss_growth": "none"}


def test_without_a_gpu_resident_memory_is_where_the_tensors_are() -> None:
    text = steps("step {step} loss 1.0 rss={size:.0f} MB", [500 + 120 * index for index in range(14)], every=1)
    assert read(text) == {"host.rss_growth": "main", "memory.step_slope_bytes": 120 * MIB, "memory.flat_before": False}
    assert read(text + "\nUsing device cuda:0") == {"host.rss_growth": "main"}


def test_micro_batches_of_a_window_are_no_steps() -> None:
    sizes = [300 + 30 * index for index in range(14)]
    found = read(steps("update 3 micro-step {step}/64 loss=2.0 rss={size:.0f} MB", sizes, every=4))
    assert found == {
        "host.rss_growth": "main",
        "memory.micro_step_slope_bytes": round(7.5 * MIB),
        "train.accumulation_steps": 64,
    }
    flat = read(steps("update 3 micro_batch={step} mem 10.{size:.0f} GiB", [1] * 12, every=1))
    assert flat == {"memory.micro_step_slope_bytes": 0}


def test_of_a_long_log_the_end_is_read() -> None:
    sizes = [*(4.0 + 0.001 * index for index in range(2000)), *[12.0] * MAX_LINES]
    assert read(steps("step {step} mem {size:.3f} GiB", sizes)) == {"memory.step_slope_bytes": 0, "memory.flat_before": True}


def test_ranks_are_not_mixed() -> None:
    text = "\n".join(f"[rank0]: step {step} mem 10.00 GiB\n[rank1]: step {step} mem 20.00 GiB" for step in range(12))
    assert read(text)["memory.flat_before"] is True


@given(st.text(alphabet="step mem rs=:0123456789.GiBMk \n", max_size=400))
def test_any_text_is_read(text: str) -> None:
    read(text)


def tables(*snapshots: list[tuple[int, int, int, str]], header: str = "    PID    PPID   RSS COMMAND") -> dict[str, object]:
    text = ""
    for index, rows in enumerate(snapshots):
        text += f"10:4{index}:05\n{header}\n"
        text += "".join(f"{pid:7} {parent:7} {mib * 1024} {command}\n" for pid, parent, mib, command in rows)
    return {fact.name: fact.value for fact in read_process_tables(lines(text), context("rss.log", "unknown"))}


def run_at(main: int, worker: int) -> list[tuple[int, int, int, str]]:
    train = "/opt/venv/bin/python train.py --epochs 3"
    return [
        (100, 1, 300, "/opt/venv/bin/python /opt/venv/bin/torchrun train.py"),
        (4212, 100, main, train),
        (4300, 4212, worker, train),
        (4301, 4212, worker + 10, train),
    ]


def test_workers_that_grow_beside_a_flat_main_process() -> None:
    assert tables(*(run_at(5000, 900 + 300 * index) for index in range(6))) == {"host.rss_growth": "workers"}


def test_a_main_process_that_grows() -> None:
    assert tables(*(run_at(5000 + 900 * index, 900) for index in range(6))) == {"host.rss_growth": "main"}


def test_tables_in_which_nothing_grows() -> None:
    assert tables(*(run_at(5000, 900) for _ in range(6))) == {"host.rss_growth": "none"}


def test_one_table_or_another_tables_columns_say_nothing() -> None:
    assert tables(run_at(5000, 900)) == {}
    assert tables(*(run_at(5000 + 900 * index, 900) for index in range(6)), header="    PID    PPID   VSZ COMMAND") == {}
