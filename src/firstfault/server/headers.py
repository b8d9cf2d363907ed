"""Headers that keep a page to itself: no script but the console's own, no frame, no other site."""

from __future__ import annotations

from litestar.types import Message, Scope

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    b"x-content-type-options": b"nosniff",
    # To this console alone: with none at all, older browsers would not say either that a form is our own.
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), microphone=(), geolocation=()",
    b"content-security-policy": POLICY.encode(),
}


async def add_security_headers(message: Message, scope: Scope) -> None:
    """Hook before an answer is sent; a handler's own content policy stays."""
    if message["type"] != "http.response.start":
        return
    # Every answer passes here: a search for each header would cost more than all else that is done to it.
    there = {name.lower() for name, _ in message["headers"]}
    message["headers"] = [*message["headers"], *(header for header in _HEADERS.items() if header[0] not in there)]
