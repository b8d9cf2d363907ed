"""What was sent, as a capsule: a capsule itself, or small text and files, which are redacted before anything else."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request
from litestar.datastructures import UploadFile
from litestar.types import HTTPReceiveMessage, WebSocketReceiveMessage

from firstfault.ingest.capsule import MAX_TEXT_BYTES
from firstfault.server.submit import TooLargeError
from firstfault.server.work import RefusedError, Work

MAX_FILES = 200
JSON, TEXT, FORM = "application/json", "text/plain", "multipart/form-data"
URL_ENCODED = "application/x-www-form-urlencoded"
PASTED, TYPED = "pasted.txt", "command.txt"


async def read_body(request: Request[Any, Any, Any], work: Work, limit: int) -> bytes:
    """The bytes of a capsule. RefusedError for what cannot be read, TooLargeError for more than `limit` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLargeError(f"{int(length):,} bytes are more than the {limit:,} that one submission may have")
    if kind in (FORM, URL_ENCODED):
        return await _capsule_of(await _files_of_form(request, limit), work)
    if kind not in (JSON, TEXT):
        raise RefusedError(f"content type {kind or 'missing'}", hint=f"send {JSON} (a capsule), {TEXT} or {FORM}")
    data = await bounded(request, limit)
    return data if kind == JSON else await _capsule_of([(PASTED, data)], work)


async def bounded(request: Request[Any, Any, Any], limit: int) -> bytes:
    """The body; TooLargeError as soon as it is longer, without reading on."""
    return b"".join([part async for part in _limited(request, limit).stream()])


def _limited(request: Request[Any, Any, Any], limit: int) -> Request[Any, Any, Any]:
    """The request, whose body raises TooLargeError as soon as it is longer, whoever reads it."""
    size = 0

    async def receive() -> HTTPReceiveMessage | WebSocketReceiveMessage:
        nonlocal size
        message = await request.receive()
        if message["type"] == "http.request":
            size += len(message["body"])
        if size > limit:
            raise TooLargeError(f"more than the {limit:,} bytes that one submission may have")
        return message

    return Request(request.scope, receive=receive)


async def _capsule_of(files: list[tuple[str, bytes]], work: Work) -> bytes:
    """The redacted capsule of small files. What is in them is opened and read by a worker, never here."""
    files = [(name, data) for name, data in files if data.strip()]
    if not files:
        raise RefusedError("nothing was sent", hint="paste a traceback or a log, or choose files")
    return await asyncio.to_thread(work.gather, files)


async def _files_of_form(request: Request[Any, Any, Any], limit: int) -> list[tuple[str, bytes]]:
    form = await _limited(request, limit).form()
    files: list[tuple[str, bytes]] = []
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            if value.filename:
                files.append((_plain_name(value.filename), await value.read(limit + 1)))
        elif name == "text":
            files.append((PASTED, str(value).replace("\r\n", "\n").encode("utf-8", "replace")))
        elif name == "command" and str(value).strip():
            files.append((TYPED, f"{str(value).strip()}\n".encode("utf-8", "replace")))
    if len(files) > MAX_FILES or sum(len(data) for _, data in files) > min(limit, MAX_TEXT_BYTES):
        raise TooLargeError(f"more than the {limit:,} bytes, or the {MAX_FILES} files, that a form may send")
    return files


def _plain_name(name: str) -> str:
    """A name without anything that leads elsewhere; names are titles, never places here."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[-200:] or "file"
