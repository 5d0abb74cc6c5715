"""User data: the variables of templates, their rendering, and the errors when it fails."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from farrier.config import templates
from farrier.config.sites import CloudInitSite, Site
from farrier.errors import ConfigError
from farrier.handlers.node.maas import cloud_init
from farrier.model.network.uses import NodeNetworks, SegmentUse
from farrier.model.node.snapshot import Bmc, Node
from tests.support.nodes import node

TOKEN = "5ec2e7" * 10
HEAD = "#cloud-config\n"


def site(template: str, **fields: Any) -> Site:
    return Site(name="north", cloud_init=CloudInitSite(template=template, **fields))


def a_node(**fields: Any) -> Node:
    return node(site="north", labels={"rack": "r1"}, macs=("52:54:00:00:00:01",), bmc=Bmc(serial="S-1"), **fields)


def rendered(template: str, **fields: Any) -> str:
    return cloud_init.render(site(HEAD + template, **fields), a_node(), token=TOKEN).removeprefix(HEAD)


def refusal(template: str, given: Node | None = None, **fields: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        cloud_init.render(site(template, **fields), given or a_node(), token=TOKEN)
    chain: BaseException | None = refused.value
    while chain is not None:
        assert TOKEN not in str(chain)
        chain = chain.__cause__ or chain.__context__
    return str(refused.value)


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{{ node.name }} {{ node.site }} {{ node.id }}", "gpu-1 north 1", id="the node"),
        pytest.param("{{ node.labels.rack }}", "r1", id="a label"),
        pytest.param("{{ node.macs[0] }}", "52:54:00:00:00:01", id="a MAC address"),
        pytest.param("{{ node.bmc.serial }}", "S-1", id="its BMC"),
        pytest.param("{{ node.model or 'unknown' }}", "unknown", id="a default for a missing value"),
        pytest.param("{{ bootstrap_token }}", TOKEN, id="the token"),
        pytest.param("{{ distro_series }}", "ubuntu/noble", id="the distribution"),
        pytest.param("{{ proxy }}", "http://proxy:3128", id="a variable of the site"),
        pytest.param("{% if node.agentless %}\nx\n{% endif %}\ny\n", "y\n", id="lines of statements leave none"),
    ],
)
def test_a_template_has_the_variables_of_the_node_its_site_and_the_token(template: str, expected: str) -> None:
    assert rendered(template, variables={"proxy": "http://proxy:3128"}) == expected


def test_a_template_gets_exactly_the_documented_fields_of_a_node() -> None:
    given = cloud_init.of_node(a_node())
    assert set(given) == set(templates.NODE)
    assert set(given["bmc"]) == set(templates.BMC)


LAN = SegmentUse(name="tenant-a", state="ready", mtu=9000, vlan=7, address="10.9.0.2", prefix_length=24)


def test_a_template_has_the_addresses_of_the_node_by_segment() -> None:
    used = NodeNetworks(segments=(LAN, SegmentUse(name="tenant-b", state="ready")))
    assert set(cloud_init.of_segments(a_node(networks=used))["tenant-a"]) == set(templates.SEGMENT)
    template = (
        HEAD + "{% for name, lan in segments.items() %}{{ name }} {{ lan.address }}/{{ lan.prefix_length }}{% endfor %}"
    )
    made = cloud_init.render(site(template), a_node(networks=used), token=TOKEN)
    assert made.removeprefix(HEAD) == "tenant-a 10.9.0.2/24"
    assert "line 2: an expression has no value" in refusal(
        HEAD + "{{ segments['tenant-a'].gateway }}", a_node(networks=used)
    )
    assert "has no attribute 'tenant-b'" in refusal(HEAD + "{{ segments['tenant-b'].address }}", a_node(networks=used))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("a: b # c\n- d", '"a: b # c\\n- d"', id="YAML syntax"),
        pytest.param("yes", '"yes"', id="a boolean of YAML"),
        pytest.param('"\\', '"\\"\\\\"', id="quotes"),
        pytest.param("\u0085\u2028é\x7f", '"\\u0085\\u2028\\u00e9\\u007f"', id="line breaks of YAML alone"),
        pytest.param("\U0001f600", '"\\U0001f600"', id="beyond the basic plane"),
        pytest.param(17, "17", id="a number"),
        pytest.param(True, "true", id="a boolean"),
    ],
)
def test_the_filter_yaml_renders_any_value_as_one_yaml_value(value: str | int | bool, expected: str) -> None:
    assert rendered("{{ value | yaml }}", variables={"value": value}) == expected


def test_the_filter_yaml_takes_lists_mappings_and_nothing() -> None:
    made = rendered("{{ [node.macs, node.labels, node.model] | yaml }}")
    assert json.loads(made) == [["52:54:00:00:00:01"], {"rack": "r1"}, None]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        pytest.param("a\n{{ node.labels.row }}", "line 3: 'dict object' has no attribute 'row'", id="a label"),
        pytest.param("{{ node.labels.row | yaml }}", "has no attribute 'row'", id="a label through a filter"),
        pytest.param("{{ node.model }}", "line 2: an expression has no value", id="a missing value"),
        pytest.param("{{ strange }}", "'strange' is undefined", id="an undefined name"),
        pytest.param("{{ 1 / 0 }}", "ZeroDivisionError", id="arithmetic"),
        pytest.param("{{ 'a' + 1 }}", "TypeError", id="types"),
        pytest.param("{{ node.name.__class__ }}", "unsafe", id="an attribute of Python"),
        pytest.param("{{ {}[bootstrap_token] }}", "has no attribute", id="the token as a name"),
        pytest.param("{{ {}[bootstrap_token | upper] }}", "has no attribute", id="the token in other letters"),
        pytest.param("{{ '\\ud800' }}", "UnicodeEncodeError", id="not encodable in UTF-8"),
    ],
)
def test_an_error_of_a_template_is_reported_without_the_token(template: str, message: str) -> None:
    text = refusal(HEAD + template)
    assert message in text and "site north" in text and "gpu-1" in text
    assert TOKEN.upper() not in text


@pytest.mark.parametrize("template", ["hostname: x", " #cloud-config", "{{ bootstrap_token }}", "\n"])
def test_user_data_that_cloud_init_would_ignore_is_refused(template: str) -> None:
    assert "cloud-init requires that user data begins with one of #cloud-config" in refusal(template)


@pytest.mark.parametrize("header", ["#!/bin/sh\n", "## template: jinja\n", "Content-Type: multipart/mixed\n"])
def test_other_formats_of_user_data_are_accepted(header: str) -> None:
    assert cloud_init.render(site(header), a_node(), token=TOKEN) == header


def test_user_data_larger_than_max_bytes_is_refused() -> None:
    room = 1024 - len(HEAD)
    assert len(rendered("é" * (room // 2), max_bytes=1024).encode()) == room
    assert "more than the 1024 bytes of cloud_init.max_bytes" in refusal(HEAD + "é" * (room // 2 + 1), max_bytes=1024)


def test_rendering_of_an_endless_template_stops_at_max_bytes() -> None:
    endless = "{% for i in range(99999) %}{% for j in range(99999) %}xxxxxxxxxxxxxxxx{% endfor %}{% endfor %}"
    assert "more than the 1024 bytes" in refusal(HEAD + endless, max_bytes=1024)


def test_a_template_that_fails_only_for_some_tokens_is_reported_as_such() -> None:
    picky = HEAD + "{{ bootstrap_token if bootstrap_token[0] == 'x' else 1 / 0 }}"
    assert "some bootstrap tokens" in refusal(picky)


def test_a_site_without_a_template_has_no_user_data() -> None:
    assert cloud_init.render(site(""), a_node(), token=TOKEN) == ""


def test_a_label_is_not_rendered_as_a_template() -> None:
    named = msgspec.structs.replace(a_node(), labels={"rack": "{{ bootstrap_token }}"})
    made = cloud_init.render(site(HEAD + "{{ node.labels.rack }}"), named, token=TOKEN)
    assert made == HEAD + "{{ bootstrap_token }}"


def test_a_digest_is_the_sha256_of_the_token_in_hexadecimal() -> None:
    assert cloud_init.digest("token") == "3c469e9d6c5875d37a43f353d4f88e61fcf812c66eee3457465a40b0da4153e0"
