"""What those who run a console ask of it: is it alive, and what does it do."""

from __future__ import annotations

from litestar import Response, get
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest

from firstfault.server.inject import GivenServices

registry = CollectorRegistry()
DIAGNOSES = Counter("firstfault_diagnoses", "Answers by verdict.", ["verdict"], registry=registry)
DIAGNOSIS_SECONDS = Histogram(
    "firstfault_diagnosis_seconds",
    "Time from a submission to its answer.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
    registry=registry,
)
REFUSED = Counter("firstfault_refused", "Requests refused: allowance, rate, size, time.", ["why"], registry=registry)
LOG_RECORDS = Counter("firstfault_log_records", "Log records received over OTLP.", registry=registry)


@get("/healthz", sync_to_thread=True, include_in_schema=False, opt={"exclude_from_csrf": True})
def healthz(services: GivenServices) -> Response[dict[str, str]]:
    """200 while the database answers, else 503."""
    try:
        services.store.ping()
    except Exception as error:
        # Whatever the driver raises: the answer of a health check is that it is not healthy.
        return Response({"status": "unavailable", "what": type(error).__name__}, status_code=503)
    return Response({"status": "ok"})


@get("/metrics", sync_to_thread=False, include_in_schema=False, opt={"exclude_from_csrf": True})
def metrics() -> Response[bytes]:
    """The counters in the text format of Prometheus. Labels are few and fixed: never a host, a path or an account."""
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


handlers = [healthz, metrics]
