"""What was sent, as a capsule: a capsule itself, or small text and files, which are redacted before anything else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from litestar import Request
from litestar.datastructures import UploadFile

from firstfault.ingest.capsule import MAX_TEXT_BYTES, encode, handed_capsule
from firstfault.ingest.handed import Handed
from firstfault.ingest.redact import Redactor
from firstfault.knowledge.schema import Pack
from firstfault.server.submit import TooLargeError
from firstfault.server.work import RefusedError

MAX_FILES = 200
JSON, TEXT, FORM = "application/json", "text/plain", "multipart/form-data"
PASTED, TYPED = "pasted.txt", "command.txt"


async def read_body(request: Request[Any, Any, Any], pack: Pack, limit: int, redactor: Redactor | None = None) -> bytes:
    """The bytes of a capsule. RefusedError for what cannot be read, TooLargeError for more than `limit` bytes."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise TooLargeError(f"{int(length):,} bytes are more than the {limit:,} that one submission may have")
    if kind == FORM or kind == "application/x-www-form-urlencoded":
        return await _of_form(request, pack, limit, redactor)
    data = await bounded(request, limit)
    if kind == JSON:
        return data
    if kind == TEXT:
        return capsule_of([(PASTED, data)], pack, redactor)
    raise RefusedError(f"content type {kind or 'missing'}", hint=f"send {JSON} (a capsule), {TEXT} or {FORM}")


async def bounded(request: Request[Any, Any, Any], limit: int) -> bytes:
    """The body; TooLargeError as soon as it is longer, without reading on."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise TooLargeError(f"more than the {limit:,} bytes that one submission may have")
        parts.append(part)
    return b"".join(parts)


def capsule_of(files: Sequence[tuple[str, bytes]], pack: Pack, redactor: Redactor | None = None) -> bytes:
    """The redacted capsule of small files by name, packed ones too. RefusedError if nothing of them can be read."""
    handed = [Handed(path=name, data=data, size_bytes=len(data)) for name, data in files if data.strip()]
    if not handed:
        raise RefusedError("nothing was sent", hint="paste a traceback or a log, or choose files")
    return encode(handed_capsule(handed, pack, redactor))


async def _of_form(request: Request[Any, Any, Any], pack: Pack, limit: int, redactor: Redactor | None) -> bytes:
    form = await request.form()
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
    return capsule_of(files, pack, redactor)


def _plain_name(name: str) -> str:
    """A name without anything that leads elsewhere; names are titles, never places here."""
    parts = [part for part in name.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    return "/".join(parts)[-200:] or "file"
