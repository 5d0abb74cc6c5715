"""The OpenAPI document describes all that the API serves, and nothing else."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from farrier.model.intents.actions import ACTIONS
from farrier.model.node.details import LISTED
from farrier.web.agents import operations as agents
from farrier.web.api import table

DOCUMENT: dict[str, Any] = json.loads(table.document())
DOCUMENTS = (
    pytest.param(table.document(), id="for people and programs"),
    pytest.param(agents.document(), id="for agents"),
)
OPERATIONS = [
    (path, method, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()
]


def test_every_route_is_described_with_its_methods() -> None:
    served = {
        (route.path, method.lower())
        for route in table.ROUTES
        for method in (route.methods or ())
        if method != "HEAD" and route.path != "/openapi.json"
    }
    assert {(path, method) for path, method, _ in OPERATIONS} == served


@pytest.mark.parametrize("described", DOCUMENTS)
def test_every_reference_leads_to_a_schema_and_every_schema_is_referred_to(described: bytes) -> None:
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', described.decode()))
    assert references == set(json.loads(described)["components"]["schemas"])


@pytest.mark.parametrize("described", DOCUMENTS)
def test_an_operation_has_a_unique_id_a_summary_and_its_errors(described: bytes) -> None:
    operations = [
        (path, operation) for path, item in json.loads(described)["paths"].items() for operation in item.values()
    ]
    ids = [operation["operationId"] for _, operation in operations]
    assert len(set(ids)) == len(ids)
    for path, operation in operations:
        assert operation["summary"] and operation["responses"]["default"]
        names = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
        assert names == set(re.findall(r"{(\w+)}", path))
        assert all(each.get("description") for each in operation["parameters"] if each["in"] != "path")


def test_each_detail_that_lists_show_has_a_filter() -> None:
    parameters = {each["name"] for each in DOCUMENT["paths"]["/nodes"]["get"]["parameters"]}
    assert parameters >= {"status", "management", "after", "limit", *LISTED}


def test_each_action_is_described_with_its_parameters() -> None:
    body = DOCUMENT["paths"]["/intents"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert set(body["discriminator"]["mapping"]) == set(ACTIONS)
    schemas = DOCUMENT["components"]["schemas"]
    assert "reason" in schemas["Drain"]["properties"]


def test_each_time_in_a_response_has_the_format_of_a_time() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    properties = [
        (name, name_of_property, part)
        for name, schema in schemas.items()
        for name_of_property, property_ in schema.get("properties", {}).items()
        if name_of_property.endswith("_at") or name_of_property in ("at", "now", "since", "until")
        for part in property_.get("anyOf", [property_])
        if part.get("type") != "null"
    ]
    assert len(properties) > 50
    assert [each for each in properties if each[2].get("format") != "date-time"] == []


@pytest.mark.parametrize("escape", [r"\\A", r"\\Z"])
def test_no_pattern_uses_an_escape_that_only_python_has(escape: str) -> None:
    assert escape not in table.document().decode()
