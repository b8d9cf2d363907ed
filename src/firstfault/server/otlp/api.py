"""`POST /v1/logs`: OTLP/HTTP as OpenTelemetry's specification (1.x) has it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, asgi
from litestar.exceptions import MethodNotAllowedException
from litestar.types import Receive, Scope, Send

from firstfault.server import ops
from firstfault.server.accounts.principal import address_key, principal_of
from firstfault.server.origin import refuse_other_sites
from firstfault.server.otlp.decode import JSON, MAX_BODY_BYTES, PROTOBUF, BadRequestError, TooLargeError, decode
from firstfault.server.otlp.journal import BusyError
from firstfault.server.otlp.receive import TooManyStreamsError
from firstfault.server.records import Principal
from firstfault.server.services import Services

_INVALID, _REFUSED, _EXHAUSTED, _UNAVAILABLE = 3, 7, 8, 14
"""Codes of google.rpc.Status, which an answer to a refused request holds."""


@asgi("/v1/logs", copy_scope=False)
async def receive_logs(scope: Scope, receive: Receive, send: Send) -> None:
    """Answered when what is kept of the records is on disk. 429 and 503 ask the sender to come again."""
    # Without Litestar's reading of handlers: senders send thousands a second, and a fifth of the time would be its own.
    request: Request[Any, Any, Any] = Request(scope, receive, send)
    if request.method != "POST":
        raise MethodNotAllowedException("log records are sent with POST")
    await refuse_other_sites(request)
    services: Services = request.app.state.services
    principal = principal_of(request, services)
    if not services.settings.private:
        services.rates.take(principal, address_key(request, services), services.settings)
    code, body = await _answer(request, services, principal)
    media_type = JSON if _is_json(request.headers.get("content-type", "")) else PROTOBUF
    headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": code, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _answer(request: Request[Any, Any, Any], services: Services, principal: Principal) -> tuple[int, bytes]:
    kind = request.headers.get("content-type", "")
    if "logs" not in principal.scopes:
        return _status(401, kind, _REFUSED, "send a token with the scope `logs`: Authorization: Bearer ff_...")
    try:
        groups = decode(await _body(request.receive), kind, request.headers.get("content-encoding", ""))
        await asyncio.wrap_future(services.logs.take(principal.owner, groups))
    except TooManyStreamsError as error:
        return _status(429, kind, _EXHAUSTED, str(error))
    except TooLargeError as error:
        return _status(413, kind, _INVALID, str(error))
    except BadRequestError as error:
        return _status(400, kind, _INVALID, str(error))
    except BusyError as error:
        return _status(503, kind, _UNAVAILABLE, str(error))
    except Exception as error:
        # Whatever the driver raises: nothing was acknowledged, so the sender keeps the records and sends them again.
        return _status(503, kind, _UNAVAILABLE, f"not stored: {type(error).__name__}")
    ops.LOG_RECORDS.inc(sum(len(group.lines) for group in groups))
    return 200, b"{}" if _is_json(kind) else b""


async def _body(receive: Receive) -> bytes:
    """The body; TooLargeError as soon as it is longer than one may be."""
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message: Any = await receive()
        if message["type"] != "http.request":
            raise BadRequestError("the sender left")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > MAX_BODY_BYTES:
            raise TooLargeError(f"more than {MAX_BODY_BYTES:,} bytes")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _status(code: int, kind: str, reason: int, message: str) -> tuple[int, bytes]:
    """The status of the answer and a google.rpc.Status as its body."""
    if _is_json(kind):
        return code, msgspec.json.encode({"code": reason, "message": message})
    text = message.encode()[:120]
    return code, b"\x08" + bytes([reason]) + b"\x12" + bytes([len(text)]) + text


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == JSON


handlers = [receive_logs]
