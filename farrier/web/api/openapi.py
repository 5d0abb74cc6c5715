"""Makes the OpenAPI document from the table of operations and the types in this table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

import farrier
from farrier.web.api import decoding
from farrier.web.api.faults import parts
from farrier.web.api.operation import JSON, Operation, ResponseType, refusal
from farrier.web.server.refusals import Problem

Json = dict[str, Any]

_REF = "#/components/schemas/"
BEARER = "bearer"
"""The name of the security scheme of tokens and keys."""
# Python's patterns for the edges of a text, and the patterns with the same meaning in JSON Schema.
_EDGES = {r"\A": "^", r"\Z": "$"}
_EDGE = re.compile(r"\\A|\\Z")
# Parameters, and fields of a body, that name one resource, which may not exist.
_RESOURCES = frozenset({"node", "resource"})


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """What the operations of a document have in common. `refusals` are the meanings of the statuses with which any of
    them may be refused."""

    title: str
    description: str
    prefix: str
    refusals: Mapping[int, str]


def document(operations: Sequence[Operation], api: Api) -> bytes:
    """Return the document as JSON."""
    types = [type_ for each in operations for type_ in _types(each)]
    schemas, components = msgspec.json.schema_components([Problem, *types], ref_template=_REF + "{name}")
    _mark_times(components, types)
    by_type = dict(zip(map(_key, [Problem, *types]), map(_plain, schemas), strict=True))
    made = _Document(by_type, _plain(components), api)
    paths: dict[str, Json] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = made.operation(each)
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": farrier.__version__,
            "description": api.description,
        },
        "servers": [{"url": api.prefix}],
        "paths": paths,
        "components": {
            "schemas": made.components,
            "securitySchemes": {BEARER: {"type": "http", "scheme": "bearer"}},
        },
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1)


class _Document:
    """The schemas of all types, and the parts of the document that refer to them."""

    def __init__(self, schemas: Mapping[str, Json], components: Json, api: Api) -> None:
        self._schemas = schemas
        self._refusals = api.refusals
        self.components = components
        self._parameters: dict[str, Json] = {}

    def operation(self, each: Operation) -> Json:
        """Return the description of an operation."""
        text = inspect.getdoc(each.respond) or ""
        found: Json = {
            "operationId": _operation_id(each),
            "summary": text.partition(".")[0],
            "description": " ".join(text.split()),
            "tags": [each.path.split("/")[1]],
            "parameters": self._parameters_of(each),
            "responses": self._responses(each),
            "security": each.security(BEARER),
        }
        if each.body is not None:
            schema = self._schemas[_key(each.described or each.body)]
            found["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
        return found

    def _parameters_of(self, each: Operation) -> list[Json]:
        properties = self._properties(each.given)
        return [
            _without_nulls(
                {
                    "name": field.name,
                    "in": field.place.value,
                    "required": field.required,
                    "description": properties[field.name].pop("description", None),
                    "schema": _given(properties[field.name]),
                }
            )
            for field in decoding.fields(each.given, each.path)
        ]

    def _properties(self, type_: type[msgspec.Struct]) -> Json:
        """Return the schemas of the fields of a struct of parameters, which is removed from the components."""
        name = self._schemas[_key(type_)]["$ref"].removeprefix(_REF)
        if name not in self._parameters:
            self._parameters[name] = self.components.pop(name)
        properties: Json = msgspec.json.decode(msgspec.json.encode(self._parameters[name]["properties"]))
        return properties

    def _responses(self, each: Operation) -> Json:
        found = {str(status): self._response(answer) for status, answer in each.answers.items()}
        for status, what in self._refusals.items():
            if str(status) not in found and _may_refuse(each, status):
                found[str(status)] = self._response(refusal(what))
        return found | {"default": self._response(refusal("Any other error."))}

    def _response(self, answer: ResponseType) -> Json:
        found: Json = {"description": answer.what}
        if answer.headers:
            found["headers"] = {
                name: {"description": what, "schema": {"type": "string"}} for name, what in answer.headers.items()
            }
        if answer.body is not None:
            found["content"] = {answer.media: {"schema": self._schemas[_key(answer.body)]}}
        elif answer.media != JSON:
            found["content"] = {answer.media: {"schema": {"type": "string"}}}
        return found


def _mark_times(components: Mapping[str, Json], types: Iterable[Any]) -> None:
    """Add the format date-time to the properties that are times. msgspec adds this format only if a type demands a time
    zone; all times in responses have a zone."""
    structs: dict[str, msgspec.inspect.StructType] = {}
    for info in msgspec.inspect.multi_type_info(types):
        _add_structs(info, structs)
    for name, struct in structs.items():
        for field in struct.fields:
            if any(isinstance(part, msgspec.inspect.DateTimeType) for part in parts(field.type)):
                schema = components[name]["properties"][field.encode_name]
                for part in schema.get("anyOf", [schema]):
                    if part.get("type") == "string":
                        part["format"] = "date-time"


def _add_structs(info: msgspec.inspect.Type, structs: dict[str, msgspec.inspect.StructType]) -> None:
    """Add the structs that a type contains to `structs`, by the name of their schema."""
    for part in parts(info):
        match part:
            case msgspec.inspect.StructType():
                if part.cls.__name__ not in structs:
                    structs[part.cls.__name__] = part
                    for field in part.fields:
                        _add_structs(field.type, structs)
            case msgspec.inspect.VarTupleType() | msgspec.inspect.ListType():
                _add_structs(part.item_type, structs)
            case msgspec.inspect.DictType():
                _add_structs(part.value_type, structs)
            case _:
                pass


def _types(each: Operation) -> Iterable[Any]:
    yield each.given
    if each.body is not None:
        yield each.described or each.body
    yield from (answer.body for answer in each.answers.values() if answer.body is not None)


def _key(type_: Any) -> str:
    """Return the key of a type, which may be a union, in the mapping of schemas."""
    return repr(type_)


def _may_refuse(each: Operation, status: int) -> bool:
    return status != 404 or "{" in each.path or not _RESOURCES.isdisjoint(_names(each))


def _names(each: Operation) -> Iterable[str]:
    """The names of an operation's parameters, and of the fields of its body."""
    yield from (field.name for field in decoding.fields(each.given, each.path))
    yield from getattr(each.body, "__struct_fields__", ())


def _operation_id(each: Operation) -> str:
    return "_".join([each.method.lower(), *re.findall(r"[\w-]+", each.path)]).replace("-", "_")


def _plain(schema: Any) -> Any:
    """Return a schema whose patterns are in the dialect of JSON Schema."""
    if isinstance(schema, Mapping):
        return {
            name: _EDGE.sub(lambda edge: _EDGES[edge.group()], value)
            if name == "pattern" and isinstance(value, str)
            else _plain(value)
            for name, value in schema.items()
        }
    if isinstance(schema, (list, tuple)):
        return [_plain(each) for each in schema]
    return schema


def _given(schema: Json) -> Json:
    """Return the schema of a parameter without the type null. A client omits a parameter instead of sending null."""
    if "anyOf" not in schema:
        return schema
    (kept,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
    kept.pop("description", None)
    return dict(kept)


def _without_nulls(found: Json) -> Json:
    return {name: value for name, value in found.items() if value is not None}
