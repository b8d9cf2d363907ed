"""`firstfault diagnose --server URL`: the answer of a console, which gets the redacted evidence and nothing else."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from firstfault.cli.answer import present
from firstfault.cli.screen import Screen, write
from firstfault.errors import UnreadableInputError, UsageError
from firstfault.ingest.capsule import encode, gather_capsule, shown
from firstfault.knowledge.pack import load_pack
from firstfault.model.diagnosis import Diagnosis
from firstfault.render.words import exit_code
from firstfault.units import format_size

TOKEN = "FIRSTFAULT_TOKEN"
TIMEOUT_S = 120
TRIES = 4
_AGAIN = frozenset({429, 502, 503, 504})
_LONGEST_WAIT_S = 30.0


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Evidence and token go to the address that was named, and to no other."""

    def redirect_request(self, *_: object) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def show_what_is_sent(inputs: Sequence[str], output: Path | None) -> int:
    """Writes the bytes that would be sent; to a terminal, those laid out for a person to read."""
    sent = _capsule(inputs)
    write(shown(sent) + "\n" if output is None and sys.stdout.isatty() else sent, output)
    return 0


def show_remote(
    inputs: Sequence[str],
    server: str,
    *,
    named: Sequence[str],
    facts: Mapping[str, str],
    form: str,
    output: Path | None,
    patch: bool,
    screen: Screen,
) -> int:
    """Sends the capsule of the inputs, writes the answer, and says where it is kept."""
    sent = _capsule(inputs)
    base = _base(server)
    print(f"sending {format_size(len(sent))} of redacted evidence to {base} (--show-capsule shows it)", file=sys.stderr)
    query = urllib.parse.urlencode([("fact", f"{name}={value}") for name, value in facts.items()])
    answer = _post(f"{base}/api/v1/diagnoses{'?' if query else ''}{query}", sent)
    diagnosis = msgspec.convert(answer["diagnosis"], Diagnosis)
    present(diagnosis, load_pack(), named=named, form=form, output=output, patch=patch, screen=screen, here=False)
    left = answer.get("allowance_left")
    kept = urllib.parse.urljoin(f"{base}/", answer["url"])
    print(f"kept at {kept}" + ("" if left is None else f"; {left} left today"), file=sys.stderr)
    return exit_code(diagnosis)


def _capsule(inputs: Sequence[str]) -> bytes:
    return encode(gather_capsule(inputs, load_pack(), stdin=sys.stdin.buffer if "-" in inputs else None))


def _base(server: str) -> str:
    parts = urllib.parse.urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise UsageError(f"{server!r} is no address", where="--server", hint="https://console.example.org")
    return server.rstrip("/")


def _post(url: str, body: bytes) -> dict[str, Any]:
    """The answer. One key for all tries: a submission whose answer was lost is not made twice."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Idempotency-Key": uuid.uuid4().hex}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    for last in (*[False] * (TRIES - 1), True):
        try:
            with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
                found: dict[str, Any] = json.loads(answer.read())
                return found
        except urllib.error.HTTPError as error:
            if error.code not in _AGAIN or last or _is_final(error):
                raise _refused(url, error) from error
            time.sleep(_wait(error))
        except (urllib.error.URLError, TimeoutError, ConnectionError, ValueError) as error:
            if last:
                reason = getattr(error, "reason", error)
                raise UnreadableInputError(
                    f"no answer: {reason}", where=url, hint="without --server it is answered here"
                ) from error
            time.sleep(1)
    raise AssertionError("the last try returns or raises")


def _is_final(error: urllib.error.HTTPError) -> bool:
    # An allowance that is spent comes without a time to come again.
    return error.code == 429 and error.headers.get("Retry-After") is None


def _wait(error: urllib.error.HTTPError) -> float:
    told = error.headers.get("Retry-After", "")
    return min(float(told) if told.isascii() and told.isdigit() else 2.0, _LONGEST_WAIT_S)


def _refused(url: str, error: urllib.error.HTTPError) -> UsageError:
    try:
        problem = json.loads(error.read())
        what, hint = str(problem["detail"]), str(problem.get("hint", ""))
    except (ValueError, KeyError, TypeError, OSError):
        what, hint = f"answered {error.code} {error.reason}", ""
    if error.code == 401:
        hint = hint or f"put a token into {TOKEN}"
    return UsageError(what, where=url, hint=hint)
