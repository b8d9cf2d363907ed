from __future__ import annotations

from msgspec.structs import replace

from firstfault.ingest.kernel import PRODUCES, read_kernel
from firstfault.model.event import Clock, Place
from reader_lines import context, lines


def facts(text: str) -> dict[str, object]:
    _, found = read_kernel(lines(text), context("dmesg.txt", "kernel"))
    assert {fact.name for fact in found} <= set(PRODUCES)
    assert all(fact.spans for fact in found)
    return {fact.name: fact.value for fact in found}


KILL = """\
[91.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=71,uid=1000
[91.6] Memory cgroup out of memory: Killed process 71 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB
"""


def test_a_kill_is_one_exit_however_many_lines_tell_of_it() -> None:
    (found,), _ = read_kernel(lines(KILL), context("dmesg.txt", "kernel"))
    assert (found.place.pid, found.code, found.reporter, found.span.line) == (71, -9, "kernel", 1)
    assert facts(KILL) == {"host.oom_kill": "memcg"}


def test_a_kill_of_the_whole_machine() -> None:
    assert facts("Out of memory: Killed process 9 (python3) total-vm:1kB, anon-rss:1kB") == {"host.oom_kill": "system"}


def test_kills_of_both_kinds_decide_nothing() -> None:
    assert "host.oom_kill" not in facts(KILL + "Out of memory: Killed process 9 (python3) total-vm:1kB, anon-rss:1kB")


def test_the_limit_of_the_cgroup_is_the_memory_of_the_host() -> None:
    assert facts("[1.0] memory: usage 62914560kB, limit 62914560kB, failcnt 91") == {"host.ram_bytes": 62914560 * 1024}


def test_a_crash_names_its_library() -> None:
    text = "[ 13.8] python3[244]: segfault at 0 ip 00007f0b sp 00007ffd error 4 in libfoo.so.1[7f0b,1000] likely on CPU 0"
    (found,), _ = read_kernel(lines(text), context("dmesg.txt", "kernel"))
    assert (found.place.pid, found.code) == (244, -11)
    assert facts(text) == {"native.module": "libfoo.so.1"}


XID = "[{at}] NVRM: Xid (PCI:0000:{bus}:00): {number}, pid='<unknown>', name=<unknown>, text"


def test_the_first_xid_is_not_a_cleanup_report() -> None:
    text = "\n".join(XID.format(at=at, bus="3b", number=number) for at, number in ((1.0, 45), (9.0, 79), (9.5, 154)))
    assert facts(text) == {"gpu.xid": (45, 79, 154), "gpu.xid_first": 79, "gpu.xid_kind": "hardware"}


def test_the_documented_cause_wins_over_printed_order_within_a_second() -> None:
    text = "\n".join(XID.format(at=at, bus="3b", number=number) for at, number in ((1.0, 64), (1.5, 48)))
    timed = [replace(line, place=Place(time=Clock(float(line.number) / 2, "boot"))) for line in lines(text)]
    _, found = read_kernel(timed, context("dmesg.txt", "kernel"))
    assert {fact.name: fact.value for fact in found}["gpu.xid_first"] == 48


def test_xids_of_several_gpus_decide_nothing_without_a_rank_map() -> None:
    assert facts("\n".join(XID.format(at=1.0, bus=bus, number=79) for bus in ("3b", "86"))) == {}


def test_kernel_text_quoted_in_a_log_is_no_report() -> None:
    text = (
        "sample[3] user: NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off\nanswer: Out of memory: Killed process 4 (python)"
    )
    assert read_kernel(lines(text), context()) == ((), ())
