"""A request as MAAS parses it, and the errors with which MAAS refuses a request.

An operation reads fields by name, as the table in `forms` defines them: a field that is not in the table cannot be
read, and is ignored if a client sends it. A body that is not a urlencoded form is ignored; MAAS itself reads some
fields of JSON and of multipart forms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import msgspec

from farrier.sim.maas.http import forms
from farrier.sim.maas.http.forms import FIELDS, BadParameter, Data, Field, Origin

TEXT = "text/plain; charset=utf-8"
HTML = "text/html; charset=utf-8"
JSON = "application/json; charset=utf-8"


class Refused(Exception):
    """An error response of MAAS. `body` is a text, or a dict that becomes JSON. A `Refused` is an intended response,
    and never indicates a bug in the simulation."""

    def __init__(
        self,
        status: int,
        body: str | Mapping[str, object] = "",
        headers: dict[str, str] | None = None,
        *,
        kind: str | None = None,
    ) -> None:
        super().__init__(status, body)
        self.status = status
        self.body = body
        self.headers = headers or {}
        self.kind = kind
        """The type of the content, if it is not the usual type."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A response: status, body and content type. `encoded` makes the usual responses."""

    status: int = 200
    content: bytes = b""
    content_type: str = TEXT
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def encoded(
    body: object, *, status: int = 200, headers: dict[str, str] | None = None, kind: str | None = None
) -> Answer:
    """Return a response. A text stays a text; everything else becomes JSON."""
    if isinstance(body, Answer):
        return body
    content, usual = (body.encode(), TEXT) if isinstance(body, str) else (msgspec.json.encode(body), JSON)
    return Answer(status=status, content=content, content_type=kind or usual, headers=headers or {})


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its response."""

    method: str
    path: str
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    answer: Answer


class User(msgspec.Struct, frozen=True, kw_only=True):
    """The user of the API key."""

    username: str
    key: str
    is_superuser: bool = True


class Call(msgspec.Struct, kw_only=True):
    """One request. The functions in `later` switch power and start work. They are called after the response is built,
    because MAAS also switches power and starts work after its commit."""

    method: str
    op: str | None
    user: User
    query: list[tuple[str, str]]
    form: list[tuple[str, str]]
    operation: str = ""
    """Its name in the table of fields."""
    later: list[Callable[[], None]] = msgspec.field(default_factory=list)

    def named(self, path: list[str]) -> Call:
        """Set the operation by `path`, so that its fields can be read. Returns this call."""
        self.operation = f"{self.method} {kind_of(path)}" + (f"?op={self.op}" if self.op else "")
        return self

    def one(self, name: str) -> str | None:
        """Return the text of a field, or None if it is missing."""
        field, data = self._field(name)
        return forms.text(field, field.sent_as or name, data)

    def many(self, name: str) -> list[str]:
        field, data = self._field(name)
        assert field.reader is forms.Reader.MANY, f"MAAS reads one {name}"
        return data.getlist(name)

    def flag(self, name: str) -> bool:
        """Return the value of a flag. Raises Refused for a word that MAAS's validator refuses."""
        field, data = self._field(name)
        try:
            return forms.flag(field, field.sent_as or name, data)
        except BadParameter as error:
            raise Refused(400, str(error)) from None

    def number(self, name: str) -> int | None:
        field, data = self._field(name)
        try:
            return forms.number(field, name, data)
        except BadParameter as error:
            raise Refused(400, str(error)) from None

    def has(self, name: str) -> bool:
        return self._field(name)[1].get(name) is not None

    def needed(self, name: str) -> str:
        value = self.one(name)
        if value is None:
            raise Refused(400, f"No provided {name}!")
        return value

    def problems(self) -> dict[str, object]:
        """Return the errors of this operation's form, by field."""
        found = {name: forms.problem(field, name, self._data(field.origin)) for name, field in self._fields().items()}
        return {name: [text] for name, text in found.items() if text is not None}

    def check(self) -> None:
        """Raise Refused with the errors of the form, if any."""
        problems = self.problems()
        if problems:
            raise Refused(400, problems)

    def unnamed(self, origin: Origin) -> list[tuple[str, str]]:
        """Return all parameters, for operations that accept any name."""
        return [(name, value) for name, value in self._data(origin).pairs if name != "op"]

    def _fields(self) -> Mapping[str, Field]:
        return FIELDS.get(self.operation, {})

    def _field(self, name: str) -> tuple[Field, Data]:
        field = self._fields()[name]
        return field, self._data(field.origin)

    def _data(self, origin: Origin) -> Data:
        if origin is Origin.GET:
            return Data(self.query)
        return Data(self.form)


def kind_of(path: list[str]) -> str:
    """Return the kind of a path, with `*` for each object. Every second part of a path names an object."""
    return "/".join(part if number % 2 == 0 else "*" for number, part in enumerate(path))


def form_of(content_type: str, body: bytes) -> list[tuple[str, str]]:
    """Return the parameters in a urlencoded body; none for any other body."""
    if content_type.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return []
    return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)
