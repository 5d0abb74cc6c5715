"""The segments and partitions that a site file configures for its nodes, and their variables in templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.config import AgentsConfig, site_files
from farrier.config.sites import Site
from farrier.errors import ConfigError

TEMPLATE = '[cloud_init]\ntemplate_file = "user-data.j2"\n'
USES = """[maas]
url = "http://maas.north:5240/MAAS"
key = "env:MAAS_KEY"
[ufm]
url = "https://ufm.north"
token = "env:UFM"
[network]
segments = ["tenant-a", "10.lan"]
[infiniband]
partitions = ["ib-a"]
"""


@pytest.fixture
def sites(tmp_path: Path) -> Path:
    return tmp_path


def site(sites: Path, text: str, template: str = "#cloud-config\n") -> Site:
    (sites / "north.toml").write_text(text)
    (sites / "user-data.j2").write_text(template)
    return site_files.load(str(sites), AgentsConfig())["north"]


def refusal(sites: Path, text: str, template: str = "#cloud-config\n") -> list[str]:
    """The lines of the error message."""
    with pytest.raises(ConfigError) as refused:
        site(sites, text, template)
    return str(refused.value).splitlines()[1:]


@pytest.mark.parametrize(
    ("was", "becomes", "expected"),
    [
        ('"10.lan"', '"tenant-a"', "[network] segments: segment 'tenant-a' is listed 2 times"),
        ('"10.lan"', '"10"', "[network] segments"),
        ('"10.lan"', '"a b"', "[network] segments"),
        ('"ib-a"', '"ib-a", "ib-a"', "partition 'ib-a' is listed 2 times"),
        ('[ufm]\nurl = "https://ufm.north"\ntoken = "env:UFM"\n', "", "expected a table [ufm]"),
        ('["ib-a"]', str([f"p{number}" for number in range(17)]), "[infiniband] partitions"),
    ],
    ids=["twice", "a number", "a blank", "a partition twice", "no UFM", "too many"],
)
def test_invalid_or_repeated_names_of_segments_and_partitions_are_refused(
    sites: Path, was: str, becomes: str, expected: str
) -> None:
    assert was in USES
    (line,) = refusal(sites, USES.replace(was, becomes))
    assert expected in line


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            "{{ segments['tenant-b'].address }}",
            "line 2: the nodes of this site have no segment 'tenant-b'; did you mean",
        ),
        ("{{ segments.tenant.address }}", "line 2: the nodes of this site have no segment 'tenant'"),
        ("{{ segments['tenant-a'].adress }}", "line 2: a segment has no 'adress'; did you mean 'address'?"),
    ],
)
def test_unknown_segments_and_fields_in_a_template_are_refused(sites: Path, template: str, expected: str) -> None:
    (line,) = refusal(sites, USES + TEMPLATE, f"#cloud-config\n{template}\n")
    assert expected in line


@pytest.mark.parametrize(
    "template",
    [
        "{{ segments['tenant-a'].address }} {{ segments['10.lan']['mtu'] }}",
        "{% for name, lan in segments.items() %}{{ name }} {{ lan.gateway or 'none' }}{% endfor %}",
        "{% if 'tenant-c' in segments %}{{ segments[other].address }}{% endif %}",
        "{% set segments = {} %}{{ segments.anything }}",
    ],
)
def test_a_template_may_use_the_segments_that_the_site_names(sites: Path, template: str) -> None:
    text = USES + TEMPLATE + 'variables = { other = "tenant-a" }\n'
    assert site(sites, text, f"#cloud-config\n{template}\n").infiniband.partitions == ("ib-a",)
