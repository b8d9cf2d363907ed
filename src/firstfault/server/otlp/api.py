"""`POST /v1/logs`: OTLP/HTTP as OpenTelemetry's specification (1.x) has it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from litestar import Request, Response, post

from firstfault.server import ops
from firstfault.server.inject import GivenPrincipal, GivenServices
from firstfault.server.otlp.decode import JSON, MAX_BODY_BYTES, PROTOBUF, BadRequestError, TooLargeError, decode
from firstfault.server.otlp.receive import TooManyStreamsError

_INVALID, _REFUSED, _EXHAUSTED, _UNAVAILABLE = 3, 7, 8, 14
"""Codes of google.rpc.Status, which an answer to a refused request holds."""


@post(
    "/v1/logs",
    status_code=200,
    include_in_schema=False,
    opt={"exclude_from_csrf": True},
    request_max_body_size=MAX_BODY_BYTES,
)
async def receive_logs(request: Request[Any, Any, Any], services: GivenServices, principal: GivenPrincipal) -> Response[bytes]:
    """Answered when what is kept of the records is on disk. 429 and 503 ask the sender to come again."""
    kind = request.headers.get("content-type", "")
    if "logs" not in principal.scopes:
        return _status(401, kind, _REFUSED, "send a token with the scope `logs`: Authorization: Bearer ff_...")
    try:
        groups = decode(await request.body(), kind, request.headers.get("content-encoding", ""))
        stored = services.logs.take(principal.owner, groups)
    except TooManyStreamsError as error:
        return _status(429, kind, _EXHAUSTED, str(error))
    except TooLargeError as error:
        return _status(413, kind, _INVALID, str(error))
    except BadRequestError as error:
        return _status(400, kind, _INVALID, str(error))
    try:
        await asyncio.wrap_future(stored)
    except Exception as error:
        # Whatever the driver raises: nothing was acknowledged, so the sender keeps the records and sends them again.
        return _status(503, kind, _UNAVAILABLE, f"not stored: {type(error).__name__}")
    ops.LOG_RECORDS.inc(sum(len(group.lines) for group in groups))
    return Response(b"{}", media_type=JSON) if _is_json(kind) else Response(b"", media_type=PROTOBUF)


def _status(code: int, kind: str, reason: int, message: str) -> Response[bytes]:
    if _is_json(kind):
        return Response(msgspec.json.encode({"code": reason, "message": message}), status_code=code, media_type=JSON)
    text = message.encode()[:120]
    return Response(b"\x08" + bytes([reason]) + b"\x12" + bytes([len(text)]) + text, status_code=code, media_type=PROTOBUF)


def _is_json(kind: str) -> bool:
    return kind.partition(";")[0].strip().lower() == JSON


handlers = [receive_logs]
