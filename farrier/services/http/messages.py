"""Requests to MAAS, UFM and Vault, and their responses. The `repr` of a request or a response omits the body."""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar

import msgspec
from typing_extensions import override

Form: TypeAlias = tuple[tuple[str, str], ...]
_T = TypeVar("_T")

# The longest wait that farrier accepts from a service or from a proxy in front of it. 5 or 10 s are usual, but any
# value is possible.
LONGEST_STAY = timedelta(minutes=5)


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request. `path` is relative to the API's root; `form` or `json` is its body. If the status of the response is
    in `answers`, the response is decoded, otherwise it is a failure. No text may contain `secrets`."""

    operation: StrEnum
    path: str
    method: str = "GET"
    query: Form = ()
    form: Form = ()
    json: Mapping[str, Any] | None = None
    answers: Container[int] = range(200, 300)
    secrets: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the request may change something and must not be sent twice."""
        return self.method != "GET"

    @override
    def __repr__(self) -> str:
        return f"Request({self.method} {self.path} for {self.operation}, body=***)"


class Garbled(Exception):
    """A response cannot be decoded. `detail` does not quote its content."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class HttpResponse(msgspec.Struct, frozen=True):
    """A response as it was received. The `repr` of a response omits the body, which may contain passwords."""

    status: int
    body: bytes
    content_type: str = ""
    retry_after: str = ""

    @property
    def is_page(self) -> bool:
        """Whether the body is an HTML page, such as a proxy returns. MAAS also labels the plain text about a refused
        key as HTML (piston3/authentication.py:141), so the label alone is not enough: the body must begin with markup
        or be empty."""
        start = self.body[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if start.startswith((b"<!doctype", b"<html")):
            return True
        return "html" in self.content_type.lower() and (not start or start.startswith(b"<"))

    @property
    def stay(self) -> timedelta | None:
        """The wait that the service requires. If the service sends a date instead of seconds, the wait is LONGEST_STAY,
        because the service's clock is unknown."""
        text = self.retry_after.strip()
        if not (text.isascii() and text.isdecimal()):
            return LONGEST_STAY if text else None
        return min(timedelta(seconds=int(text[:9])), LONGEST_STAY)

    @override
    def __repr__(self) -> str:
        return f"Answer(status={self.status}, body=***)"


def understood(answer: HttpResponse, shape: type[_T], *, service: str) -> _T:
    """Decode the JSON body of a response of `service`. Raises `Garbled`."""
    try:
        return msgspec.json.decode(answer.body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        if answer.is_page:
            raise Garbled("the response is a web page instead of JSON") from None
        # The decoder's error names places and types, never values.
        raise Garbled(f"the response is not of the form that {service} documents: {error}") from None
