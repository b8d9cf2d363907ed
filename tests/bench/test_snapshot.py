from __future__ import annotations

import importlib.util
import io
import pickle
from pathlib import Path

from firstfault.ingest.memory_snapshot_reading import read_snapshot

PATH = Path(__file__).parents[2] / "bench" / "snapshot.py"


def test_the_writer_writes_what_pickle_and_the_reader_read() -> None:
    spec = importlib.util.spec_from_file_location("bench_snapshot", PATH)
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    file = io.BytesIO()
    count = bench.Stream(bench.Writer(file), 20, 0).write(900_000)
    value = pickle.loads(file.getvalue())  # noqa: S301 - written two lines above
    (trace,) = value["device_traces"]
    assert len(trace) == count
    assert len(trace[500]["frames"]) == 20
    reading = read_snapshot(io.BytesIO(file.getvalue()).read)
    assert (reading.stopped, reading.entries) == ("", count)
    alive = {}
    for entry in trace:
        if entry["action"] == "alloc":
            alive[entry["addr"]] = entry["size"]
        elif entry["action"] == "free_requested":
            del alive[entry["addr"]]
    assert reading.replays[0].total == sum(alive.values())
