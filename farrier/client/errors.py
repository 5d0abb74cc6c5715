"""The errors of the client: the server refused a request, or did not respond."""

from __future__ import annotations

from http import HTTPStatus

import httpx
import msgspec
from typing_extensions import override

from farrier.errors import ExitCode, FarrierError, MalformedRequest, RefusedByModel
from farrier.model.views.intents import IntentView

_MEDIA = "application/problem+json"
UNAVAILABLE = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
"""These statuses mean that the server's database is down, that the server is starting, or that a proxy cannot reach
it."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the API (RFC 9457)."""

    title: str = ""
    detail: str = ""
    hint: str = ""
    sqlstate: str = ""
    intent: IntentView | None = None


class ApiUnreachable(FarrierError):
    """The server did not respond, or responded that it or its database is unavailable. The server may still have
    received the request."""

    label = "api_unreachable"
    exit_code = ExitCode.DATABASE_UNREACHABLE

    def __init__(self, url: str, reason: str, *, hint: str = "") -> None:
        advice = hint or "check the URL, and whether farrier is running there"
        super().__init__(f"cannot reach farrier at {url}: {reason}; {advice}")


class ApiError(RefusedByModel):
    """The server refused a request. `status` is the HTTP status code."""

    label = "api_error"

    def __init__(self, status: int, problem: Problem) -> None:
        text = problem.detail or problem.title or f"the server responded {status}"
        super().__init__(text, hint=problem.hint, sqlstate=problem.sqlstate)
        self.status = status


class AccessDenied(ApiError):
    """The token is missing or wrong, or does not allow the request."""

    label = "access_denied"

    @property
    @override
    def is_of_every_resource(self) -> bool:
        return True


class Malformed(ApiError, MalformedRequest):
    """The request is invalid. For example, a filter names a misspelt state."""

    label = "api_malformed"


class ServerFault(ApiError):
    """The server cannot handle requests, because of a bug, or because of faults in its settings or its database."""

    label = "server_fault"
    exit_code = ExitCode.FAILED


class NotAccepted(ApiError):
    """A resource rejected an intent, or a newer intent superseded it. `intent` has the reason."""

    label = "not_accepted"

    def __init__(self, status: int, problem: Problem, intent: IntentView) -> None:
        super().__init__(status, problem)
        self.intent = intent


def of(response: httpx.Response) -> ApiError | ApiUnreachable:
    """Return the error for a response that reports a failure, or that is not a response of the API."""
    problem = _problem(response)
    if response.status_code in UNAVAILABLE:
        return ApiUnreachable(str(response.url), problem.detail, hint=problem.hint)
    if response.is_server_error:
        return ServerFault(response.status_code, problem)
    if problem.intent is not None:
        return NotAccepted(response.status_code, problem, problem.intent)
    if response.status_code == HTTPStatus.BAD_REQUEST:
        return Malformed(response.status_code, problem)
    denied = response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN) and not problem.sqlstate
    return (AccessDenied if denied else ApiError)(response.status_code, problem)


def of_answer(intent: IntentView) -> NotAccepted:
    """Return the error for an intent that was rejected or superseded."""
    detail = f"intent {intent.id} ({intent.action} of {intent.name}) was {intent.status}"
    problem = Problem(detail=f"{detail}: {intent.reason}" if intent.reason else detail)
    return NotAccepted(HTTPStatus.CONFLICT, problem, intent)


def _problem(response: httpx.Response) -> Problem:
    if response.headers.get("content-type", "").startswith(_MEDIA):
        try:
            return msgspec.json.decode(response.content, type=Problem)
        except msgspec.DecodeError:
            pass
    reason = f"{response.status_code} {response.reason_phrase}".strip()
    if response.has_redirect_location:
        return Problem(
            detail=f"{response.url} responded {reason} to {response.headers['location']}",
            hint="use the URL of farrier itself; the client never follows a redirect, because another "
            "server would receive the token",
        )
    return Problem(
        detail=f"{response.url} responded {reason}, which is not a response of farrier's API", hint="check the URL"
    )
