"""Whose lines they are: the run and the stream that the attributes of OTLP resources and records name."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from firstfault.ingest.filename import places_of

MAX_NAME_CHARS = 200
_RUN_KEYS = (
    "firstfault.run",
    "slurm.job.id",
    "slurm_job_id",
    "k8s.job.name",
    "k8s.statefulset.name",
    "ray.job.id",
    "service.instance.group",
    "service.name",
)
"""Attributes that name a run, the most telling first (OpenTelemetry's semantic conventions, and what is commonly added)."""
_HOST_KEYS = ("host.name", "k8s.node.name", "host", "hostname", "host.id")
_FILE_KEYS = ("log.file.path", "log.file.name", "file", "path", "filename")
_POD_KEYS = ("k8s.pod.name", "container.name", "service.instance.id")
_RANK_KEYS = ("rank", "global_rank", "process.rank", "torch.rank", "RANK")
DEFAULT_RUN = "logs"


class Identity(msgspec.Struct, frozen=True):
    """The run's name, the stream's (a path, so that it reads like a file of that run), and its host and rank if known."""

    run: str
    stream: str
    host: str | None
    rank: int | None


def identity_of(resource: Mapping[str, str], labels: Mapping[str, str]) -> Identity:
    """Whose the lines with these attributes are; attributes of the record win over those of the resource."""
    found = {**resource, **labels}
    host, pod, file = (_first(found, keys) for keys in (_HOST_KEYS, _POD_KEYS, _FILE_KEYS))
    told = _first(found, _RANK_KEYS)
    stream = "/".join(part.strip("/") for part in (host, pod, file) if part) or "stream"
    rank = int(told) if told and told.isascii() and told.isdigit() and len(told) < 8 else places_of([stream])[0].rank
    if told and not file:
        stream = f"{stream}/rank_{told}.log"
    return Identity(_first(found, _RUN_KEYS) or DEFAULT_RUN, stream[-MAX_NAME_CHARS:], host, rank)


def _first(found: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    return next((found[key][:MAX_NAME_CHARS] for key in keys if found.get(key)), None)
