"""The shared part of both clients: address, headers, time limits, and decoding of responses."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import httpx
import msgspec

from farrier import tls
from farrier.client import errors
from farrier.client.calls import ApiCall
from farrier.client.errors import ApiUnreachable
from farrier.errors import ConfigError, FarrierError

T = TypeVar("T")

_API = "/api/v1"
_SECONDS = 10.0
# Attempts of a request whose repetition has the same effect, and the pause between them.
ATTEMPTS = 3
PAUSE_SECONDS = 0.5
_TOKEN = re.compile(r"[\x21-\x7e]+")


def options(url: str, token: str | None, verify: Any) -> dict[str, Any]:
    """Return the options of an `httpx` client. Raises ConfigError for a URL or a token that cannot be used."""
    try:
        base = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError(
            f"expected the URL of farrier, such as https://farrier.example, not {url!r}: {error}"
        ) from None
    if base.scheme not in ("http", "https") or not base.host:
        raise ConfigError(f"expected the URL of farrier, such as https://farrier.example, not {url!r}")
    if base.userinfo:
        raise ConfigError("expected the URL of farrier without user name and password; farrier accepts only a token")
    return {
        "base_url": base.copy_with(path=base.path.rstrip("/").removesuffix(_API) + _API),
        "headers": {"Accept": "application/json"} | ({} if token is None else _authorization(token)),
        "verify": tls.verifying() if verify is True else verify,
        "timeout": _SECONDS,
    }


def _authorization(token: str) -> dict[str, str]:
    if not _TOKEN.fullmatch(token):
        raise ConfigError(
            "token: expected the line that farrier token create printed; got a text that is empty, "
            "or contains a space, a line break or a character beyond ASCII; remove these characters, "
            "for example with .strip()"
        )
    return {"Authorization": f"Bearer {token}"}


def arguments(call: ApiCall[Any]) -> dict[str, Any]:
    """Return the arguments of `httpx.Client.request`."""
    given: dict[str, Any] = {
        "method": call.method,
        "url": call.path,
        "params": call.query,
        "headers": dict(call.headers),
        "timeout": _SECONDS + call.waits,
    }
    if call.body is not None:
        given["content"] = msgspec.json.encode(call.body)
        given["headers"]["Content-Type"] = "application/json"
    return given


def is_worth_another(call: ApiCall[Any], attempt: int, response: httpx.Response | None) -> bool:
    """Return whether to send the request again, because the server did not respond, is starting, or is overloaded."""
    failed = response is None or response.status_code in errors.UNAVAILABLE
    return failed and call.again and attempt < ATTEMPTS


def read(call: ApiCall[T], response: httpx.Response) -> T:
    """Decode a response. Raises ApiError for a refusal, and ApiUnreachable if the server is unavailable."""
    if not response.is_success:
        raise errors.of(response)
    try:
        return msgspec.json.decode(response.content or b"{}", type=call.type)
    except msgspec.DecodeError as error:
        problem = errors.Problem(
            detail=f"the response of {response.url} is not a response of farrier's API: {error}", hint="check the URL"
        )
        raise errors.ApiError(response.status_code, problem) from error


def is_stream(response: httpx.Response) -> bool:
    """Return whether the stream of changes began."""
    return response.is_success and response.headers.get("content-type", "").startswith("text/event-stream")


def failure(url: str, response: httpx.Response) -> FarrierError:
    """Return the error of a stream that did not begin: temporary if the server failed, otherwise its refusal."""
    if response.is_server_error:
        return ApiUnreachable(url, f"it responded {response.status_code}")
    return errors.of(response)
