"""A list in each form: columns, names, JSON, a JSONPath, sorted, and watched."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import typer

from farrier.cli.output import lists
from farrier.cli.output.lists import Column, Listing, Output, OutputFormat
from farrier.model.views.nodes import Page

NOW = datetime(2026, 1, 2, tzinfo=UTC)


class Row(msgspec.Struct, frozen=True):
    id: int
    name: str
    state: str = "active"
    age: int = 1
    labels: dict[str, Any] = {}


async def pages(*given: Sequence[Row]) -> AsyncIterator[Page[Row]]:
    for rows in given:
        yield Page(NOW, tuple(rows))


def listed(*given: Sequence[Row]) -> Listing[Row]:
    return Listing(
        columns=(
            Column("NAME", lambda row, _: row.name),
            Column("STATE", lambda row, _: row.state),
            Column("FOR", lambda row, _: f"{row.age}m" if row.age else None, ages=True),
            Column("ID", lambda row, _: str(row.id), wide=True),
        ),
        pages=lambda: pages(*given),
        name=lambda row: row.name,
        id=lambda row: row.id,
        fields=Row.__struct_fields__,
        none="no row matches",
    )


def form(output: Output = Output.TABLE, *, path: str = "", sort_by: str = "", watch: bool = False) -> OutputFormat:
    return OutputFormat(output=output, path=path, sort_by=sort_by, watch=watch)


ROWS = (Row(1, "gpu-10", "offline", labels={"row": 2}), Row(2, "gpu-9", labels={"row": 10, "a.b": "x"}), Row(3, "cpu"))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (form(), ["NAME    STATE    FOR", "gpu-10  offline  1m", "gpu-9   active   1m", "cpu     active   1m"]),
        (form(Output.WIDE), ["NAME    STATE    FOR  ID", "gpu-10  offline  1m   1", "gpu-9   active   1m   2"]),
        (form(Output.NAME), ["gpu-10", "gpu-9", "cpu"]),
        (form(Output.NAME, sort_by="name"), ["cpu", "gpu-9", "gpu-10"]),
        (form(Output.NAME, sort_by="-name"), ["gpu-10", "gpu-9", "cpu"]),
        (form(Output.NAME, sort_by="-id"), ["cpu", "gpu-9", "gpu-10"]),
        (form(Output.NAME, sort_by="labels.row"), ["gpu-10", "gpu-9", "cpu"]),
        (form(Output.NAME, sort_by="-labels.row"), ["gpu-9", "gpu-10", "cpu"]),
        (form(Output.NAME, sort_by="labels.a.b"), ["gpu-9", "gpu-10", "cpu"]),
        (form(Output.JSONPATH, path="$[*].name"), ["gpu-10", "gpu-9", "cpu"]),
        (form(Output.JSONPATH, path="$[?@.state == 'active'].id"), ["2", "3"]),
        (form(Output.JSONPATH, path="$[-1].labels", sort_by="name"), ['{"row":2}']),
        (form(Output.JSONPATH, path="$[9]"), []),
    ],
)
async def test_a_list_is_printed_in_the_requested_form(
    chosen: OutputFormat, expected: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    await lists.show(listed(ROWS[:1], ROWS[1:]), chosen)
    assert capsys.readouterr().out.splitlines()[: len(expected) or 1] == expected


async def test_the_json_is_one_array_also_when_it_is_sorted(capsys: pytest.CaptureFixture[str]) -> None:
    for sort_by, names in (("", ["gpu-10", "gpu-9", "cpu"]), ("name", ["cpu", "gpu-9", "gpu-10"])):
        await lists.show(listed(ROWS), form(Output.JSON, sort_by=sort_by))
        assert [row["name"] for row in msgspec.json.decode(capsys.readouterr().out)] == names


async def test_an_empty_list_is_reported_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    for output in (Output.TABLE, Output.NAME, Output.JSONPATH):
        await lists.show(listed(()), form(output, path="$[*]" if output is Output.JSONPATH else ""))
        assert capsys.readouterr() == ("", "no row matches\n")
    await lists.show(listed(()), form(Output.JSON))
    assert capsys.readouterr() == ("[]\n", "")


async def test_a_field_that_the_json_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(typer.BadParameter, match="no field is named 'sate'; did you mean 'state'"):
        await lists.show(listed(ROWS), form(sort_by="-sate.x"))


async def test_a_watch_yields_new_changed_and_removed_rows_but_not_rows_that_only_aged() -> None:
    first = [Row(1, "a"), Row(2, "b"), Row(3, "c", age=0)]
    readings = [
        first,
        [Row(1, "a", age=7), Row(2, "b", age=2), Row(3, "c", age=0)],
        [Row(1, "a", "offline"), Row(3, "c", age=5), Row(4, "d")],
    ]
    watched = listed()
    watched = msgspec.structs.replace(watched, pages=lambda: pages(readings.pop(0)))
    found = lists.changes(watched, timedelta(0))
    begin, then = await anext(found), await anext(found)
    assert list(begin.rows) == first
    assert ([row.name for row in then.rows], then.gone) == (["a", "c", "d"], {2: "b"})
    assert not readings


async def test_a_row_displaced_by_newer_rows_from_a_limited_list_is_not_reported_as_gone() -> None:
    readings = [[Row(5, "e"), Row(4, "d")], [Row(6, "f"), Row(5, "e")], [Row(7, "g"), Row(5, "e")], [Row(7, "g")]]
    watched = msgspec.structs.replace(listed(), pages=lambda: pages(readings.pop(0)), newest=2)
    found = lists.changes(watched, timedelta(0))
    assert [(await anext(found)).gone for _ in range(4)] == [{}, {}, {6: "f"}, {5: "e"}]


def test_changes_are_printed_as_rows_or_as_one_json_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for output, expected in (
        (Output.NAME, ["a"]),
        (
            Output.JSON,
            ['{"id":1,"name":"a","state":"active","age":1,"labels":{}}', '{"id":["b",2],"name":"b","gone":true}'],
        ),
        (Output.TABLE, ["NAME  STATE   FOR", "a     active  1m", "b     gone"]),
    ):
        lists.Printer(listed(), form(output)).print_more(NOW, [Row(1, "a")], gone={("b", 2): "b"})
        assert capsys.readouterr().out.splitlines() == expected


async def test_a_name_with_several_rows_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    await lists.show(listed([Row(1, "a"), Row(2, "a", "offline"), Row(3, "b")]), form(Output.NAME))
    assert capsys.readouterr().out.splitlines() == ["a", "b"]
