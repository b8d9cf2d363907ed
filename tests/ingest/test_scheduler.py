from __future__ import annotations

import textwrap

import pytest

from firstfault.ingest.scheduler import PRODUCES, read_scheduler
from firstfault.model.event import ProcessExit
from reader_lines import context, lines


def read(text: str) -> tuple[tuple[ProcessExit, ...], dict[str, object]]:
    exits, facts = read_scheduler(lines(textwrap.dedent(text)), context("slurm.out", "slurm"))
    assert {fact.name for fact in facts} <= set(PRODUCES)
    assert all(fact.spans for fact in facts)
    return exits, {fact.name: fact.value for fact in facts}


@pytest.mark.parametrize(
    ("reason", "stop"), [("TIME LIMIT", "time_limit"), ("PREEMPTION", "preemption"), ("NODE FAILURE", "node_failure")]
)
def test_a_cancelled_job_says_why(reason: str, stop: str) -> None:
    (found,), facts = read(f"slurmstepd: error: *** JOB 7 ON node-3 CANCELLED AT 2031-01-02T10:00:00 DUE TO {reason} ***\n")
    assert facts == {"sched.stop": stop}
    assert (found.reporter, found.code, found.place.host) == ("slurm", -15, "node-3")
    assert found.place.time is not None


def test_a_cancelled_step_without_a_reason_is_teardown() -> None:
    _, facts = read("slurmstepd: error: *** STEP 7.0 ON node-3 CANCELLED AT 2031-01-02T10:00:00 ***\n")
    assert facts == {}
    _, facts = read(
        """
        srun: error: node-3: task 1: Exited with exit code 1
        slurmstepd: error: *** JOB 7 ON node-3 CANCELLED AT 2031-01-02T10:00:00 ***
        """
    )
    assert facts == {}
    _, facts = read("slurmstepd: error: *** JOB 7 ON node-3 CANCELLED AT 2031-01-02T10:00:00 ***\n")
    assert facts == {"sched.stop": "cancelled"}


def test_an_oom_event_of_a_step() -> None:
    (found,), facts = read(
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM Killed.\n"
    )
    assert (found.code, facts) == (-9, {"host.oom_kill": "memcg"})


@pytest.mark.parametrize("row", ["{id} {state} {code} None 00:05:49", "{id}|{state}|{code}|00:05:49"])
def test_reads_accounting_rows(row: str) -> None:
    text = "\n".join(
        row.format(id=key, state=state, code=code)
        for key, state, code in (("7", "TIMEOUT", "0:0"), ("7.0", "CANCELLED", "0:15"))
    )
    (found,), facts = read(text)
    assert (found.code, facts) == (-15, {"sched.stop": "time_limit"})


def test_accounting_knows_memory() -> None:
    (found,), facts = read("7  OUT_OF_MEMORY  0:125\n7.0  OUT_OF_MEMORY  0:125\n   ReqTRES=cpu=4,mem=64G,node=1\n")
    assert found.code == -9
    assert facts == {"host.oom_kill": "memcg", "host.ram_bytes": 64 << 30}


DESCRIBE = """
Name:         trainer-1
Status:       Failed
Containers:
  main:
    State:          Waiting
      Reason:       CrashLoopBackOff
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Finished:     Fri, 07 Feb 2031 19:25:31 +0000
    Limits:
      memory:          60Gi
      nvidia.com/gpu:  1
Name:         trainer-2
    State:          Terminated
      Reason:       Error
      Exit Code:    134
"""


def test_reads_described_pods() -> None:
    (first, second), facts = read(DESCRIBE)
    assert (first.reporter, first.place.host, first.code) == ("kubernetes", "trainer-1", -9)
    assert "OOMKilled" in first.text
    assert first.place.time is not None
    assert (second.place.host, second.code, second.place.time) == ("trainer-2", -6, None)
    assert facts == {"host.oom_kill": "memcg", "host.ram_bytes": 60 << 30}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("Status:  Failed\nReason:  Evicted\n", {"sched.stop": "evicted"}),
        ("NAME  READY  STATUS  RESTARTS\ntrainer-0   0/1  OOMKilled  2  5m\n", {"host.oom_kill": "memcg"}),
        (
            "Status: Pending\nEvents:\n  Warning  FailedScheduling  2m  default-scheduler  0/3 nodes\n",
            {"sched.stop": "not_started"},
        ),
    ],
)
def test_reads_states_and_events_of_pods(text: str, facts: dict[str, object]) -> None:
    exits, found = read(text)
    assert found == facts
    assert [exit_.code for exit_ in exits] == ([-9] if "OOMKilled" in text else [])


def test_reads_a_pod_as_yaml() -> None:
    (found,), _ = read(
        """
        containerStatuses:
        - containerID: x
          lastState:
            terminated:
              exitCode: 139
              finishedAt: "2031-02-07T19:25:31Z"
              reason: Error
        """
    )
    assert (found.code, found.place.time is not None) == (-11, True)
