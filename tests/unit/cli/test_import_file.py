"""Files of nodes: their content, and one line for each mistake, with the place, the field, the value and the rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from farrier.cli.imports import file
from farrier.cli.imports.file import Wrong

CSV = """name,site,labels,macs,agentless,bmc_address
gpu-1,ams1,row=b;gpu=h100,02:00:00:00:00:01;02:00:00:00:00:02,true,https://10.0.0.1

gpu-2,,,,,
"""
JSON = """[
    {"name": "gpu-1", "site": "ams1", "labels": {"row": "b", "gpu": "h100"}, "agentless": true,
     "macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"], "bmc_address": "https://10.0.0.1"},
    {"name": "gpu-2", "site": null}
]"""


def written(directory: Path, name: str, text: str | bytes) -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(("name", "text"), [("n.csv", CSV), ("n.json", JSON), ("bom.csv", "\ufeff" + CSV)])
def test_csv_and_json_files_give_the_same_nodes(tmp_path: Path, name: str, text: str) -> None:
    (first, second), faults = file.read(written(tmp_path, name, text))
    assert not faults
    assert (first.name, first.bmc) == ("gpu-1", {"bmc_address": "https://10.0.0.1"})
    assert first.values == {
        "site": "ams1",
        "labels": {"row": "b", "gpu": "h100"},
        "macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"],
        "agentless": True,
    }
    assert (second.name, second.values, second.bmc) == ("gpu-2", {}, {})


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("n.txt", "name\n", "expected a file that ends in .csv or .json, got 'n.txt'"),
        ("n.csv", "", "line 1: there is no column name; the heading is one of: name, site"),
        ("n.csv", "name,site\n", "the file has no nodes"),
        ("n.csv", "name,sit\ngpu-1,ams1\n", "line 1: a node has no field 'sit'; did you mean 'site'?"),
        ("n.csv", "name,site,site\n", "line 1: field site occurs twice; remove one of the columns"),
        ("n.csv", "name;site\ngpu-1;ams1\n", "line 1: the heading is one cell; separate the cells by commas"),
        ("n.csv", 'name,site\n"gpu-1,ams1\n', "not CSV: unexpected end of data"),
        ("n.csv", b"name,site\ngpu-1,M\xfcnchen\n", "line 2: byte 0xfc is not UTF-8; save the file as UTF-8"),
        ("n.json", '[{"name": "gpu-1",}]', "not JSON: "),
        ("n.json", "[" * 100_000, "the JSON is nested too deeply; expected a list of objects"),
        ("n.json", '{"name": "gpu-1"}', 'expected a list of objects, such as [{"name": "gpu-1"'),
    ],
)
def test_a_file_that_is_no_list_of_nodes_is_refused(tmp_path: Path, name: str, text: str | bytes, error: str) -> None:
    with pytest.raises(Wrong) as raised:
        file.read(written(tmp_path, name, text))
    assert error in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "name,site\ngpu-1,ams1,x\n",
            "line 2: has 3 cells, but the heading has 2; quote each cell that contains a comma",
        ),
        ("name,site\n,ams1\n", "line 2: field name: is missing; give each node a name"),
        ("name\ngpu 1\n", "line 2: field name: 'gpu 1' is not valid; expected at most 253 letters, digits"),
        ("name\n4711\n", "line 2: field name: '4711' is not valid"),
        ("name,site\ngpu-1,ams 1\n", "line 2: field site: 'ams 1' is not usable: expected the name of the site's file"),
        ("name,agentless\ngpu-1,yes\n", 'line 2: field agentless: must be true or false, got "yes"'),
        ("name,macs\ngpu-1,02:00:00\n", "line 2: field macs: contains '02:00:00', which is not a MAC address"),
        ("name,labels\ngpu-1,row\n", "line 2: field labels: expected KEY=VALUE, separated by ;, got 'row'"),
        ("name,labels\ngpu-1,row=b;row=c\n", "line 2: field labels: a label occurs twice in 'row=b;row=c'; remove one"),
        (
            "name,maas_id\ngpu-1,gpu-1.maas\n",
            "line 2: field maas_id: 'gpu-1.maas' is not usable: expected the MAAS system ID",
        ),
        ("name,bmc_address\ngpu-1,10.0.0 .1\n", "line 2: field bmc_address: '10.0.0 .1' must be host[:port] or https"),
        ("name,bmc_credential\ngpu-1,s3cret\n", "line 2: field bmc_credential: must be a reference (file:, env:"),
        ("name,model\ngpu-1," + "x" * 101 + "\n", "is longer than 100 characters"),
        ("name\ngpu-1\ngpu-2\ngpu-1\n", "line 4: field name: 'gpu-1' also occurs in line 2; remove one of the two"),
        (
            "name,macs\ngpu-1,02:00:00:00:00:01\ngpu-2,0200.0000.0001\n",
            "line 3: field macs: '02:00:00:00:00:01' also occurs in line 2",
        ),
        (
            "name,bmc_address\ngpu-1,10.0.0.1\ngpu-2,10.0.0.1\n",
            "line 3: field bmc_address: '10.0.0.1' also occurs in line 2",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_place_the_field_the_value_and_the_rule(
    tmp_path: Path, text: str, error: str
) -> None:
    _, faults = file.read(written(tmp_path, "n.csv", text))
    (said,) = map(str, faults)
    assert error in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("element", "error"),
    [
        ("7", "element 1: expected an object with the field name, got 7"),
        ('{"name": 7}', "element 1: field name: 7 is not valid"),
        ('{"name": "a", "status": "active"}', "element 1: field status: a node has no such field"),
        ('{"name": "a", "labels": "row=b"}', 'element 1: field labels: must be a JSON object, got "row=b"'),
        ('{"name": "a", "labels": {"row": 3}}', "element 1: field labels: {'row': 3} has the value 3 for 'row', which"),
        (
            '{"name": "a", "macs": "02:00:00:00:00:01"}',
            'element 1: field macs: must be an array, got "02:00:00:00:00:01"',
        ),
        ('{"name": "a", "site": 7}', "element 1: field site: 7 must be a string"),
    ],
)
def test_a_mistake_in_json_names_the_element(tmp_path: Path, element: str, error: str) -> None:
    _, faults = file.read(written(tmp_path, "n.json", f"[{element}]"))
    (said,) = map(str, faults)
    assert said.startswith(error)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="cannot read the file: No such file"):
        file.read(tmp_path / "n.csv")
