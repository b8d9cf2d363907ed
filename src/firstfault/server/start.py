"""Runs the application under uvicorn until it is told to stop."""

from __future__ import annotations

import signal

import uvicorn

from firstfault.errors import UsageError
from firstfault.server.app import create_app
from firstfault.server.settings import Settings

GRACE_S = 10
"""Requests that run when the console is told to stop have so long to end."""


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. UsageError if the address cannot be had."""
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        timeout_graceful_shutdown=GRACE_S,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        server_header=False,
        # Addresses and paths of people are not written to a log unless an operator's proxy does.
        access_log=False,
        log_level="warning",
    )
    server = uvicorn.Server(config)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn sends itself the signal again when all is closed: to be told to stop is no failure.
        signal.signal(number, lambda *_: None)
    print(f"firstfault console: {settings.base_url or f'http://{settings.host}:{settings.port}'}", flush=True)
    server.run()
    if not server.started:
        raise UsageError(f"cannot listen on port {settings.port}", where=settings.host, hint="choose another with --port")
