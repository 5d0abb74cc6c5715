"""Reads the parameters and the body of a request, and converts them to the types that its operation declares.

The API refuses unknown parameters. If the API ignored a misspelt parameter, the client would mistake the response for
the response to the request that it meant to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from http import HTTPStatus
from typing import Any, TypeVar, assert_never

import msgspec
from msgspec import inspect
from starlette.requests import Request

from farrier.web.api import faults
from farrier.web.server.refusals import RefusedRequest

G = TypeVar("G", bound=msgspec.Struct)

LARGEST_BODY = 64 * 1024


class ParameterPlace(StrEnum):
    """The place of a parameter in a request, named as in OpenAPI."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"


class Parameter(msgspec.Struct, frozen=True):
    """A parameter. `attribute` is its name in the struct. If `many` is true, the parameter may be given several
    times."""

    name: str
    attribute: str
    place: ParameterPlace
    many: bool
    required: bool


@cache
def fields(type_: type[msgspec.Struct], path: str) -> tuple[Parameter, ...]:
    """Return the parameters that a struct declares for a path."""
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType), "the table declares structs"
    return tuple(
        Parameter(each.encode_name, each.name, _place(each.encode_name, path), _is_list(each.type), each.required)
        for each in info.fields
    )


def _place(name: str, path: str) -> ParameterPlace:
    if f"{{{name}}}" in path:
        return ParameterPlace.PATH
    return ParameterPlace.HEADER if "-" in name else ParameterPlace.QUERY


def _is_list(info: inspect.Type) -> bool:
    return isinstance(info.type if isinstance(info, inspect.Metadata) else info, inspect.VarTupleType)


def refuse_unknown(request: Request, known: Sequence[Parameter]) -> None:
    """Raise Refused for a parameter of the query string that the operation does not have."""
    if not request.scope["query_string"]:
        return
    names = [field.name for field in known if field.place is ParameterPlace.QUERY]
    for name in request.query_params:
        if name not in names:
            takes = f"parameters of this path: {', '.join(names)}" if names else "this path has no parameters"
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"unknown parameter {name!r}; {takes}")


def parameters(request: Request, type_: type[G], known: Sequence[Parameter]) -> G:
    """Return the parameters of a request. Raises Refused with the parameter, its value, and the accepted values."""
    raw: dict[str, Any] = {}
    for field in known:
        values = _values(request, field)
        if len(values) > 1 and not field.many:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"{field.name} occurs {len(values)} times; give it once")
        if values:
            raw[field.name] = values if field.many else values[0]
    _refuse_nul(raw)
    try:
        found = msgspec.convert(raw, type_, strict=False)
    except msgspec.ValidationError as wrong:
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, faults.explain(wrong, raw, type_, in_body=False)) from wrong
    for field in known:
        # msgspec converts the text "null" to a missing value.
        if field.name in raw and getattr(found, field.attribute) is None:
            raise RefusedRequest(
                HTTPStatus.BAD_REQUEST, f"{field.name} must be omitted or have a value, not {raw[field.name]!r}"
            )
    return found


def _refuse_nul(value: Any, path: str = "") -> None:
    """Raise Refused for a text, named by its path, with a NUL character, which PostgreSQL cannot store."""
    match value:
        case str() if "\0" in value:
            raise RefusedRequest(HTTPStatus.BAD_REQUEST, f"{path} contains a NUL character; remove it: {value[:40]!r}")
        case dict():
            for key, each in value.items():
                _refuse_nul(key, f"a name in {path or 'the body'}")
                _refuse_nul(each, f"{path}.{key}" if path else key)
        case list():
            for number, each in enumerate(value):
                _refuse_nul(each, f"{path}[{number}]")
        case _:
            pass


def _values(request: Request, field: Parameter) -> list[str]:
    match field.place:
        case ParameterPlace.PATH:
            return [request.path_params[field.name]]
        case ParameterPlace.QUERY:
            return request.query_params.getlist(field.name)
        case ParameterPlace.HEADER:
            return request.headers.getlist(field.name)
        case _ as never:
            assert_never(never)


async def body(request: Request, type_: Any, largest: int, deepest: int | None = None) -> Any:
    """Return the decoded body. Raises Refused if the body is invalid, too long, or has more than `deepest` levels."""
    given = b""
    async for chunk in request.stream():
        given += chunk
        if len(given) > largest:
            raise RefusedRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request body has at most {largest} bytes")
    try:
        return _decoded(given, type_, deepest)
    except RecursionError as wrong:
        text = "the request body is not valid JSON: it is nested too deeply"
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, text, hint=_form(type_)) from wrong


def _decoded(given: bytes, type_: Any, deepest: int | None) -> Any:
    try:
        plain = msgspec.json.decode(given)
    except (msgspec.DecodeError, UnicodeDecodeError) as wrong:
        text = f"the request body is not valid JSON: {wrong}"
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, text, hint=_form(type_)) from wrong
    if b"\\u0000" in given:
        _refuse_nul(plain)
    # Most bodies have too few brackets for so many levels.
    if deepest is not None and given.count(b"[") + given.count(b"{") > deepest and _depth(plain) > deepest:
        text = f"the request body has more than {deepest} levels of arrays and objects"
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, text, hint=_form(type_))
    try:
        return msgspec.convert(plain, type_)
    except msgspec.ValidationError as wrong:
        detail = faults.explain(wrong, plain, type_)
        raise RefusedRequest(HTTPStatus.BAD_REQUEST, detail, hint=_form(type_)) from wrong


def _depth(value: Any) -> int:
    """Return the number of levels of arrays and objects in a value."""
    levels, level = 0, [value]
    while level := [each for each in level if isinstance(each, (dict, list))]:
        levels += 1
        level = [below for each in level for below in (each.values() if isinstance(each, dict) else each)]
    return levels


def _form(type_: Any) -> str:
    """Return a text that describes the form of a body."""
    info = inspect.type_info(type_)
    structs = info.types if isinstance(info, inspect.UnionType) else (info,)
    names = next(
        ", ".join(f.encode_name for f in each.fields) for each in structs if isinstance(each, inspect.StructType)
    )
    return f"the request body must be a JSON object with these fields: {names}"
