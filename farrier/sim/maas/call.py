"""One request as MAAS reads it, and the ways it is refused.

Built by the application, read by every operation. Parameters come from the query and, where the method has one, from
a form body; a body of any other type is not looked at, which is how a JSON body loses its parameters silently.
Parameters keep their order and may repeat.
"""

from __future__ import annotations

import email.parser
import email.policy
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import msgspec

TEXT = "text/plain; charset=utf-8"
JSON = "application/json; charset=utf-8"
_TRUE = frozenset({"true", "1", "on", "yes"})


class Refused(Exception):
    """MAAS answers with an error: text, or a dict as JSON. Never a bug of the simulation."""

    def __init__(self, status: int, body: str | Mapping[str, object] = "", headers: dict[str, str] | None = None):
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.headers = headers or {}


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A status, a body and its type; `encoded` makes the usual one."""

    status: int = 200
    content: bytes = b""
    content_type: str = TEXT
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def encoded(body: object, *, status: int = 200, headers: dict[str, str] | None = None) -> Answer:
    """Text stays text, everything else is JSON."""
    if isinstance(body, Answer):
        return body
    content, kind = (body.encode(), TEXT) if isinstance(body, str) else (msgspec.json.encode(body), JSON)
    return Answer(status=status, content=content, content_type=kind, headers=headers or {})


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request and what it is answered."""

    method: str
    path: str
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    answer: Answer


class User(msgspec.Struct, frozen=True, kw_only=True):
    """Whoever has the key."""

    username: str
    key: str
    is_superuser: bool = True
    email: str = "a@example.com"


class Call(msgspec.Struct, kw_only=True):
    """A request that is being answered. Power is switched and work is started by `later`, after the answer's text is
    made and the change of state is kept: MAAS does the same after its commit."""

    method: str
    op: str | None
    user: User
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    later: list[Callable[[], None]] = msgspec.field(default_factory=list)

    @property
    def params(self) -> list[tuple[str, str]]:
        return self.query if self.method in {"GET", "DELETE"} else self.form

    def one(self, name: str) -> str | None:
        """The last of that name, as Django takes it."""
        return next((value for key, value in reversed(self.params) if key == name), None)

    def many(self, name: str) -> list[str]:
        return [value for key, value in self.params if key == name]

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self.one(name)
        return default if value is None or value == "" else value.lower() in _TRUE

    def needed(self, name: str) -> str:
        value = self.one(name)
        if value is None:
            raise Refused(400, f"No provided {name}!")
        return value


def form_of(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """The parameters in a body: urlencoded or multipart; none in any other."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
    if kind == "multipart/form-data":
        return _parts(content_type, body)
    return []


def _parts(content_type: str, body: bytes) -> list[tuple[str, str]]:
    head = b"Content-Type: " + content_type.encode("latin-1") + b"\r\n\r\n"
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + body)
    found: list[tuple[str, str]] = []
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        if isinstance(name, str) and isinstance(content, bytes):
            found.append((name, content.decode(errors="replace")))
    return found


def whole_number(text: str, *, name: str) -> int:
    """`text` as a number; refused as a form's field otherwise."""
    try:
        return int(text)
    except ValueError:
        raise Refused(400, {name: ["Enter a whole number."]}) from None
