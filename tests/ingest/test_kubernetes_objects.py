from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.ingest.kubernetes import PRODUCES, read_kubernetes
from firstfault.ingest.kubernetes_objects import MAX_DEPTH, read_objects
from firstfault.ingest.sniff import sniff
from reader_lines import context, lines


def pod(name="trainer-1", *, ended=None, last=None, **status):
    container = {"name": "main", "lastState": {"terminated": last} if last else {}}
    container["state"] = {"terminated": ended} if ended else {"running": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "resources": {"limits": {"memory": "60Gi", "nvidia.com/gpu": "8"}}}]},
        "status": {"phase": "Failed", "containerStatuses": [container], **status},
    }


def event(reason, message, about="trainer-1", kind="Pod"):
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": {"kind": kind, "name": about},
        "message": message,
        "reason": reason,
        "type": "Warning",
    }


def listed(*items):
    return {"apiVersion": "v1", "items": list(items), "kind": "List"}


KILLED = {"exitCode": 137, "finishedAt": "2031-02-07T19:25:31Z", "reason": "OOMKilled"}


def read(document, indent=4):
    text = document if isinstance(document, str) else json.dumps(document, indent=indent)
    exits, facts = read_kubernetes(lines(text), context("pod.json", "kubernetes"))
    assert {fact.name for fact in facts} <= set(PRODUCES)
    assert all(fact.spans for fact in facts)
    return exits, {fact.name: fact.value for fact in facts}


@pytest.mark.parametrize("indent", [4, None])
def test_a_container_that_ended(indent):
    (found,), facts = read(pod(ended=KILLED), indent)
    assert (found.code, found.place.host, found.reporter) == (-9, "trainer-1", "kubernetes")
    assert found.place.time.text == "2031-02-07T19:25:31Z"
    assert "OOMKilled" in found.text
    assert facts == {"host.oom_kill": "memcg", "host.ram_bytes": 60 << 30}


def test_the_line_of_an_exit_is_that_of_its_code():
    text = json.dumps(listed(pod("a-0", ended={"exitCode": 1, "reason": "Error"}), pod("a-1", ended=KILLED)), indent=2)
    exits, _ = read(text)
    rows = text.split("\n")
    assert [json.loads("{" + rows[found.span.line - 1].strip().rstrip(",") + "}") for found in exits] == [
        {"exitCode": 1},
        {"exitCode": 137},
    ]


def test_the_end_before_the_restart_is_read_too_and_a_signal_counts():
    exits, facts = read(pod(last={"exitCode": 255, "signal": 11, "reason": "Error"}))
    assert [found.code for found in exits] == [-11]
    assert "host.oom_kill" not in facts


@pytest.mark.parametrize(
    ("status", "stop"),
    [
        ({"reason": "Evicted", "message": "The node was low on resource: memory."}, "evicted"),
        ({"reason": "NodeLost"}, "node_failure"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}, "preemption"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}]}, "node_failure"),
        ({"conditions": [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}]}, None),
        ({"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}, None),
    ],
)
def test_why_a_pod_was_stopped(status, stop):
    _, facts = read(pod(**status))
    assert facts.get("sched.stop") == stop


@pytest.mark.parametrize(
    ("events", "facts"),
    [
        ((event("Preempted", "Preempted by pod x on node node-1"),), {"sched.stop": "preemption"}),
        ((event("NodeNotReady", "Node is not ready"),), {"sched.stop": "node_failure"}),
        ((event("Evicted", "x", "a-0"), event("Evicted", "x", "a-1")), {"sched.stop": "evicted"}),
        ((event("Evicted", "x", "a-0"), event("Evicted", "x", "other-0")), {}),
        ((event("FailedScheduling", "0/3 nodes"),), {"sched.stop": "not_started"}),
        ((event("FailedScheduling", "0/3 nodes"), event("Started", "Started container main")), {}),
        ((event("OOMKilling", "Memory cgroup out of memory: Killed process 71 (python)"),), {"host.oom_kill": "memcg"}),
        (
            (event("SystemOOM", "System OOM encountered, victim process: python, pid: 71", "node-1", "Node"),),
            {"host.oom_kill": "system"},
        ),
    ],
)
def test_events_in_json_and_in_columns(events, facts):
    exits, found = read(listed(*events))
    assert found == facts
    assert [exit_.place.pid for exit_ in exits] == ([71] if "host.oom_kill" in facts else [])
    rows = [
        f"5m12s       Warning   {e['reason']:<12}   {e['involvedObject']['kind'].lower()}/{e['involvedObject']['name']}"
        f"   {e['message']}"
        for e in events
    ]
    _, found = read("\n".join(["LAST SEEN   TYPE      REASON         OBJECT          MESSAGE", *rows]))
    assert found == facts


def test_events_of_all_namespaces():
    text = (
        "NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT          MESSAGE\n"
        "ml          <unknown>   Warning   Evicted   pod/trainer-0   x"
    )
    assert read(text)[1] == {"sched.stop": "evicted"}
    assert sniff("events.txt", text.encode()) == "kubernetes"


def test_objects_are_known_by_their_content():
    for document in (pod(), listed(event("Evicted", "x"))):
        assert sniff("x.txt", json.dumps(document).encode()) == "kubernetes"


@pytest.mark.parametrize(
    "text",
    ['{"a":' * (MAX_DEPTH + 1) + "1" + "}" * (MAX_DEPTH + 1), '{"status": {', "[1]", "plain", "", '{"a": ' + "9" * 5000 + "}"],
)
def test_what_is_no_bounded_json_is_left_to_the_line_reader(text):
    assert read_objects(lines(text)) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "items",
                    "status",
                    "spec",
                    "containers",
                    "containerStatuses",
                    "state",
                    "terminated",
                    "exitCode",
                    "reason",
                    "conditions",
                    "involvedObject",
                    "resources",
                    "limits",
                    "memory",
                    "metadata",
                    "name",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=25,
)


@given(VALUES)
def test_any_document_is_read(document):
    read_kubernetes(lines(json.dumps({"status": document, "items": document, "exitCode": 1}, indent=1)), context())
