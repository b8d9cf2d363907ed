"""Runs the application under uvicorn until it is told to stop."""

from __future__ import annotations

import signal
import socket

import uvicorn

from firstfault.errors import UsageError
from firstfault.server.app import create_app
from firstfault.server.settings import Settings
from firstfault.server.store.store import open_store

GRACE_S = 10
"""Requests that run when the console is told to stop have so long to end."""
BACKLOG = 512


def run(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM. UsageError if the database or the address cannot be had."""
    # What is wrong with it is said here, in a sentence, and not from within the server.
    open_store(settings.database_url).close()
    listening = _listen(settings)
    config = uvicorn.Config(
        create_app(settings),
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
    port = listening.getsockname()[1]
    print(f"firstfault console: {settings.base_url or f'http://{settings.host}:{port}'}", flush=True)
    server.run(sockets=[listening])


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        where = f"{settings.host}:{settings.port}"
        raise UsageError(
            f"cannot listen there: {error.strerror}", where=where, hint="choose another with --host and --port"
        ) from error
    listening.listen(BACKLOG)
    return listening
