from __future__ import annotations

from firstfault.ingest.handed import Handed
from firstfault.ingest.lines import Line
from firstfault.ingest.prefix import parse_prefix
from firstfault.ingest.ray import ranks_of_processes, with_rank_of_process
from firstfault.ingest.read import read_source
from firstfault.model.event import Place
from firstfault.scan.scanner import Scanner
from ingest_pack import PACK

LISTED = """\
(TorchTrainer pid=70, ip=10.0.0.2) Started distributed worker processes:
(TorchTrainer pid=70, ip=10.0.0.2) - (node_id=ab12, ip=10.0.0.2, pid=90) world_rank=0, local_rank=0, node_rank=0
(TorchTrainer pid=70, ip=10.0.0.2) - (ip=10.0.0.3, pid=90) world_rank=1, local_rank=0, node_rank=1
(TorchTrainer pid=70, ip=10.0.0.2) - (ip=10.0.0.3, pid=91) world_rank=2, local_rank=1, node_rank=1
"""


def _lines(text):
    found = [(raw, parse_prefix(raw)) for raw in text.splitlines()]
    return [Line(text=one.rest, raw=raw, offset=0, number=1, place=one.place) for raw, one in found]


def _rank(place, text=LISTED):
    return with_rank_of_process(place, ranks_of_processes(_lines(text))).rank


def test_the_trainer_lists_its_workers():
    assert _rank(Place(pid=90, host="10.0.0.3")) == 1
    assert _rank(Place(pid=91)) == 2
    assert _rank(Place(pid=90)) is None  # two hosts use that id
    assert _rank(Place(pid=91, host="10.0.0.2")) is None
    assert _rank(Place(pid=70)) is None
    assert _rank(Place(pid=91, rank=7)) == 7


def test_a_worker_names_its_own_rank():
    text = "(RayTrainWorker pid=41) Setting up process group for: env:// [rank=0, world_size=4]"
    assert _rank(Place(pid=41), text) == 0
    assert _rank(Place(pid=42), text) is None


def test_without_such_a_line_no_rank_is_known():
    assert ranks_of_processes(_lines("(RayTrainWorker pid=41) rank of the matrix: world_rank=3")) == {}


def test_a_failure_behind_a_prefix_of_ray_has_a_rank_and_a_host():
    worker = "(RayTrainWorker pid=91, ip=10.0.0.3) "
    text = LISTED + "".join(
        worker + row + "\n"
        for row in ("Traceback (most recent call last):", '  File "/x/train.py", line 3, in loop', "ValueError: bad")
    )
    data = text.encode()
    (report,) = read_source(Handed(path="ray.log", data=data, size_bytes=len(data)), PACK, Scanner(PACK.signals))
    (event,) = report.events
    assert (event.place.rank, event.place.host, event.place.pid) == (2, "10.0.0.3", 91)
    assert report.ranks == (2,)
