from __future__ import annotations

import pytest

from firstfault.ingest.coverage import coverage_of
from firstfault.ingest.handed import Handed
from firstfault.ingest.lines import Line
from firstfault.ingest.prefix import parse_prefix
from firstfault.ingest.read import read_source
from firstfault.model.event import Place
from firstfault.scan.scanner import Scanner
from ingest_pack import PACK
from reader_lines import context

JOURNAL = """\
Mar 04 09:58:01 node-1 kernel: usb 1-2: new high-speed device number 4
Mar 04 10:01:44 node-1 kernel: nfs: server nas-1 OK
Mar 04 10:07:30 node-1 kernel: veth3: entered promiscuous mode
Mar 04 10:12:02 node-1 kernel: audit: type=1400 apparmor
Mar 04 10:30:59 node-1 kernel: mlx5_core 0000:5e:00.0: Port: 1 Link UP
"""
NOWHERE = Place()


def coverage(text, place=NOWHERE):
    found = []
    for number, raw in enumerate(text.splitlines(), start=1):
        prefix = parse_prefix(raw)
        found.append(Line(text=prefix.rest, raw=raw, offset=0, number=number, place=prefix.place))
    return coverage_of(found, context("dmesg.txt", "kernel", place))


def test_a_journal_covers_from_its_first_to_its_last_line():
    found = coverage(JOURNAL)
    assert (found.host, found.first.text, found.last.text) == ("node-1", "Mar 04 09:58:01", "Mar 04 10:30:59")
    assert [span.line for span in found.spans] == [1, 5]


def test_the_file_names_the_host_of_dmesg():
    text = JOURNAL.replace(" node-1 kernel:", " 2025]").replace("Mar 04", "[Tue Mar  4")
    assert coverage(text, Place(host="node-7")).host == "node-7"
    assert coverage(text).host is None


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(
            f"[ {number}.000000] {line}" for number, line in enumerate(("usb 1", "nfs: x", "veth: y", "audit: z", "md: w"))
        ),
        JOURNAL + "Mar 04 10:31:00 node-2 kernel: nfs: server nas-1 OK\n",
        JOURNAL + "Mar 04 10:31:00 node-1 kernel: printk: 512 messages dropped\n",
        JOURNAL + "Mar 04 10:31:00 node-1 systemd-journald[9]: Missed 20 kernel messages\n",
        JOURNAL.replace("kernel: ", "kernel: NVRM: "),
        "".join(f"Mar 04 10:0{minute}:00 node-1 kernel: NVRM: Xid text{minute}\n" for minute in range(8)),
        "".join(JOURNAL.splitlines(keepends=True)[:3]),
        "",
    ],
)
def test_boot_times_gaps_filters_and_mixtures_cover_nothing(text):
    assert coverage(text) is None


def _report(data, name="journal.txt"):
    reports = read_source(Handed(path=name, data=data, size_bytes=len(data)), PACK, Scanner(PACK.signals))
    return reports[0]


def test_only_a_whole_kernel_log_covers_anything():
    assert _report(JOURNAL.encode()).covers is not None
    assert _report(b"$ journalctl -k | grep -i link\n" + JOURNAL.encode()).covers is None
    assert _report(b"step 1/9\nstep 2/9\n" * 30, "run.log").covers is None
