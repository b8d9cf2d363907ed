"""Attributes that collectors send say which run, host, file and rank a line belongs to."""

from __future__ import annotations

import pytest

from firstfault.server.otlp.identity import Identity, identity_of


@pytest.mark.parametrize(
    ("resource", "labels", "expected"),
    [
        ({}, {}, Identity("logs", "stream", None, None)),
        (
            {"host.name": "node-1", "service.name": "trainer"},
            {"log.file.name": "rank_3.log"},
            Identity("trainer", "node-1/rank_3.log", "node-1", 3),
        ),
        (
            {"k8s.job.name": "llm-7", "k8s.pod.name": "llm-7-worker-2", "k8s.node.name": "node-9"},
            {},
            Identity("llm-7", "node-9/llm-7-worker-2", "node-9", None),
        ),
        ({"slurm.job.id": "881", "host.name": "node-2", "rank": "5"}, {}, Identity("881", "node-2/rank_5.log", "node-2", 5)),
        ({"rank": "-1"}, {"log.file.name": "out.log"}, Identity("logs", "out.log", None, None)),
    ],
)
def test_identity(resource: dict[str, str], labels: dict[str, str], expected: Identity) -> None:
    assert identity_of(resource, labels) == expected
