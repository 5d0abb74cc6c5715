"""The Python client accepts each filter that the HTTP API has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from starlette.requests import Request

from farrier.client import calls, feed
from farrier.client.calls import Filter, Query
from farrier.errors import MalformedRequest
from farrier.web.api import decoding, table
from farrier.web.api.decoding import ParameterPlace

DOCUMENT: dict[str, Any] = msgspec.json.decode(table.document())
KIND = "network_segment"
# The client sets these itself, to read one page after the other.
PAGING = {"after", "before", "limit", "Last-Event-ID"}

CLIENTS: Mapping[str, Callable[[Mapping[str, Filter]], Query]] = {
    "/nodes": lambda filters: calls.nodes(filters, "").query,
    "/intents": lambda filters: calls.intents("node", filters, None).query,
    "/resource-intents": lambda filters: calls.intents("", filters, None).query,
    "/resources/{kind}": lambda filters: calls.resources(KIND, filters, "").query,
    "/history/stream": lambda filters: feed.Feed(filters, None).query,
}


def python_value(schema: Mapping[str, Any]) -> Any:
    """A value in Python for a parameter with this schema."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][0]
    match schema["type"]:
        case "array":
            return [python_value(schema["items"])] * 2
        case "boolean":
            return True
        case "integer":
            return 7
        case _:
            return "a text"


def read_by_server(path: str, query: Query) -> Mapping[str, Any]:
    """The parameters as the server reads them, by their names in the document."""
    (operation,) = [each for each in table.OPERATIONS if (each.path, each.method) == (path, "GET")]
    scope = {"type": "http", "query_string": urlencode(query).encode(), "headers": [], "path_params": {"kind": KIND}}
    fields = decoding.fields(operation.given, path)
    decoding.refuse_unknown(Request(scope), fields)
    found = decoding.parameters(Request(scope), operation.given, fields)
    return {field.name: getattr(found, field.attribute) for field in fields if field.place is ParameterPlace.QUERY}


@pytest.mark.parametrize("path", CLIENTS)
def test_the_client_accepts_each_filter_of_a_list(path: str) -> None:
    described = DOCUMENT["paths"][path]["get"]["parameters"]
    filters = {
        each["name"]: python_value(each["schema"])
        for each in described
        if each["in"] == "query" and each["name"] not in PAGING
    }
    found = read_by_server(path, CLIENTS[path](filters))
    assert {name: list(found[name]) if isinstance(found[name], tuple) else found[name] for name in filters} == filters


@pytest.mark.parametrize("path", CLIENTS)
@pytest.mark.parametrize("value", [[], (), set(), None, [None], 1.5, iter(["a"])], ids=lambda each: type(each).__name__)
def test_a_filter_without_a_value_is_refused_instead_of_returning_all_rows(path: str, value: Any) -> None:
    with pytest.raises(MalformedRequest, match=r"site: expected a value .* to select all rows, omit site"):
        CLIENTS[path]({"site": value})


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_change_the_path_is_refused(name: str) -> None:
    for call in (calls.node, partial(calls.resource, KIND), partial(calls.resources, filters={}, after="")):
        with pytest.raises(MalformedRequest, match="expected a name or an ID"):
            call(name)


def test_the_client_sends_times_and_durations_in_the_form_of_the_api() -> None:
    since = datetime(2027, 1, 31, 12, tzinfo=UTC)
    query = feed.Feed({"since": since, "at_least": timedelta(minutes=30)}, None).query
    assert query == (("since", "2027-01-31T12:00:00+00:00"), ("at_least", "1800s"))
