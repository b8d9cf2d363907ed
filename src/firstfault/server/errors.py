"""Every refusal in one shape: what, where, and what to do; JSON for programs (RFC 9457), a page for people."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from firstfault.errors import FirstfaultError
from firstfault.server.accounts.people import SignInError, SignUpError
from firstfault.server.accounts.throttle import ThrottledError
from firstfault.server.otlp.decode import TooLargeError as BodyTooLargeError
from firstfault.server.store.accounts import LastOwnerError, TakenError
from firstfault.server.store.allowances import AllowanceSpentError
from firstfault.server.submit import ConflictError, TooLargeError
from firstfault.server.work import BusyError, LimitError, OwnFaultError, RefusedError

PROBLEM = "application/problem+json"
_LOG = logging.getLogger(__name__)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request was refused. `where` names the part of it, `hint` the next thing to do."""

    status: int
    title: str
    detail: str
    where: str = ""
    hint: str = ""


_STATUS: dict[type[Exception], tuple[int, str, str]] = {
    AllowanceSpentError: (
        429,
        "Today's allowance is spent",
        "sign in for more, come back tomorrow, or run it yourself: pip install firstfault",
    ),
    BodyTooLargeError: (
        413,
        "Too large",
        "send the evidence only: drop the files on the start page, they are scanned in the browser",
    ),
    BusyError: (503, "Busy", "try again in a minute"),
    ConflictError: (409, "Conflict", "use a new Idempotency-Key for a new submission"),
    FirstfaultError: (422, "Not readable", ""),
    LastOwnerError: (409, "The team needs an owner", ""),
    LimitError: (422, "Too much work", "send a smaller part: the log of the rank that failed, or its last thousand lines"),
    OwnFaultError: (500, "A fault of firstfault", "please report it with `firstfault case new`"),
    RefusedError: (422, "Not readable", ""),
    SignInError: (401, "Not signed in", ""),
    SignUpError: (422, "No account was made", ""),
    TakenError: (409, "No account was made", "sign in, or ask the operator for a new password"),
    ThrottledError: (429, "Too many requests", ""),
    TooLargeError: (
        413,
        "Too large",
        "send the evidence only: drop the files on the start page, they are scanned in the browser",
    ),
}


def problem_of(error: Exception) -> Problem:
    """What to tell of an error; of one that nobody foresaw, that it happened."""
    if isinstance(error, HTTPException):
        return Problem(status=error.status_code, title=_phrase(error.status_code), detail=error.detail)
    for kind in type(error).__mro__:
        if kind in _STATUS:
            status, title, hint = _STATUS[kind]
            where, hint = getattr(error, "where", ""), getattr(error, "hint", "") or hint
            detail = getattr(error, "message", "") or str(error)
            return Problem(status=status, title=title, detail=detail, where=where, hint=hint)
    return Problem(status=500, title="A fault of firstfault", detail=type(error).__name__)


def handlers(page: Callable[[Request[Any, Any, Any], Problem], Response[Any]]) -> dict[type[Exception] | int, Any]:
    """Litestar's exception handlers; `page` makes the answer for a person."""

    def handle(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        problem = problem_of(error)
        if problem.status >= 500 and not isinstance(error, BusyError | HTTPException):
            _LOG.error("%s %s", request.method, request.scope["path"], exc_info=error)
        answer = _for_program(problem) if _is_program(request) else page(request, problem)
        if isinstance(error, ThrottledError):
            answer.headers["Retry-After"] = str(int(error.retry_after_s) + 1)
        return answer

    return {Exception: handle, HTTPException: handle}


def _for_program(problem: Problem) -> Response[bytes]:
    return Response(msgspec.json.encode(problem), status_code=problem.status, media_type=PROBLEM)


def _is_program(request: Request[Any, Any, Any]) -> bool:
    path = request.scope["path"].removeprefix(request.app.state.services.settings.path)
    return path.startswith(("/api/", "/v1/", "/healthz", "/metrics")) or "text/html" not in request.headers.get("accept", "")


def _phrase(status: int) -> str:
    from http import HTTPStatus

    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Refused"
