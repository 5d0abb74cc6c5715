"""Reads the rows of a CSV or JSON file with nodes. Each mistake is reported in one line with the place, the field and
the value.

The first line of a CSV file names its fields. The fields are the same as in a JSON object: `name`, the details of a
node, `bmc_address` and `bmc_credential`. In CSV, labels are `row=b;gpu=h100` and MAC addresses are separated by `;`. An
empty cell changes nothing.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from typing_extensions import override

from farrier.config.reading import nearest
from farrier.model.intents import actions, param_values
from farrier.model.intents.actions import Action
from farrier.model.node import detail_changes
from farrier.model.node.details import DETAILS

BMC = {"bmc_address": "address", "bmc_credential": "credential"}
"""The fields of a BMC, with the parameters of intent `set_bmc`."""
FIELDS = ("name", *DETAILS, *BMC)
# The same rule as `node_name_form` in the database.
_NAME = re.compile(r"(?!\d+\Z)[A-Za-z0-9._-]{1,253}")
_SEPARATOR = ";"


class ImportRow(msgspec.Struct, frozen=True, kw_only=True):
    """A node in a file. `where` is its place in the file."""

    where: str
    name: str
    values: Mapping[str, Any]
    bmc: Mapping[str, str]


class RowFault(msgspec.Struct, frozen=True):
    """A mistake: the place, the field (empty for the whole row), and the error text."""

    where: str
    field: str
    text: str

    @override
    def __str__(self) -> str:
        return ": ".join(filter(None, (self.where, self.field and f"field {self.field}", self.text)))


class Wrong(ValueError):
    """A file cannot be read as a list of nodes."""


def read(path: Path) -> tuple[list[ImportRow], list[RowFault]]:
    """Return the rows of a file, and its mistakes. Raises Wrong if the file has no readable rows."""
    forms = {".csv": _of_csv, ".json": _of_json}
    if path.suffix.lower() not in forms:
        raise Wrong(f"expected a file that ends in .csv or .json, got {path.name!r}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise Wrong(f"cannot read the file: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise Wrong(f"line {line}: byte {error.object[error.start]:#x} is not UTF-8; save the file as UTF-8") from None
    rows: list[ImportRow] = []
    faults: list[RowFault] = []
    for where, given in forms[path.suffix.lower()](text):
        row, wrong = (None, [given]) if isinstance(given, RowFault) else checked(where, given)
        rows += [row] if row is not None else []
        faults += wrong
    if not rows and not faults:
        raise Wrong("the file has no nodes")
    return rows, [*faults, *doubled(rows)]


_Given = Mapping[str, Any] | RowFault


def _of_csv(text: str) -> Iterator[tuple[str, _Given]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = [cell.strip() for cell in next(reader, [])]
        _check_heading(heading)
        for cells in reader:
            where = f"line {reader.line_num}"
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(heading):
                text = (
                    f"has {len(cells)} cells, but the heading has {len(heading)}; quote each cell that contains a comma"
                )
                yield where, RowFault(where, "", text)
                continue
            yield where, _of_cells(where, dict(zip(heading, (cell.strip() for cell in cells), strict=True)))
    except csv.Error as error:
        raise Wrong(f"line {reader.line_num}: not CSV: {error}") from None


def _check_heading(heading: Sequence[str]) -> None:
    if len(heading) == 1 and (_SEPARATOR in heading[0] or "\t" in heading[0]):
        raise Wrong("line 1: the heading is one cell; separate the cells by commas")
    for cell in heading:
        if cell not in FIELDS:
            raise Wrong(f"line 1: a node has no field {cell!r}; {nearest(cell, FIELDS)}")
        if heading.count(cell) > 1:
            raise Wrong(f"line 1: field {cell} occurs twice; remove one of the columns")
    if "name" not in heading:
        raise Wrong(f"line 1: there is no column name; the heading is one of: {', '.join(FIELDS)}")


def _of_cells(where: str, cells: Mapping[str, str]) -> _Given:
    """Convert each cell to the type of its field."""
    given: dict[str, Any] = {}
    fields = actions.rules(Action.SET).fields
    for field, cell in cells.items():
        if not cell:
            continue
        if field == "labels":
            pairs = [part.partition("=") for part in cell.split(_SEPARATOR) if part.strip()]
            bad = next(("".join(pair) for pair in pairs if not pair[0].strip() or not pair[1]), None)
            if bad is not None:
                return RowFault(where, field, f"expected KEY=VALUE, separated by {_SEPARATOR}, got {bad!r}")
            labels = {key.strip(): value.strip() for key, _, value in pairs}
            if len(labels) < len(pairs):
                return RowFault(where, field, f"a label occurs twice in {cell!r}; remove one of the two")
            given[field] = labels
        elif field == "macs":
            given[field] = [mac.strip() for mac in cell.split(_SEPARATOR) if mac.strip()]
        else:
            given |= param_values.typed(fields, {field: cell})
    return given


def _of_json(text: str) -> Iterator[tuple[str, _Given]]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Wrong(f"not JSON: {error}") from None
    except RecursionError:
        raise Wrong("the JSON is nested too deeply; expected a list of objects") from None
    if not isinstance(found, list):
        raise Wrong('expected a list of objects, such as [{"name": "gpu-1", "site": "ams1"}]')
    for number, given in enumerate(found, start=1):
        where = f"element {number}"
        if isinstance(given, dict):
            yield where, given
        else:
            yield where, RowFault(where, "", f"expected an object with the field name, got {given!r}"[:120])


def checked(where: str, given: Mapping[str, Any]) -> tuple[ImportRow | None, list[RowFault]]:
    """Return the row with these fields, or its mistakes."""
    faults = list(_faults(where, given))
    if faults:
        return None, faults
    present = {field: value for field, value in given.items() if value is not None}
    return ImportRow(
        where=where,
        name=present["name"],
        values={name: value for name, value in present.items() if name in DETAILS},
        bmc={name: value for name, value in present.items() if name in BMC},
    ), []


def _faults(where: str, given: Mapping[str, Any]) -> Iterator[RowFault]:
    for field in given:
        if field not in FIELDS:
            yield RowFault(where, field, f"a node has no such field; {nearest(field, FIELDS)}")
    name = given.get("name")
    if name is None:
        yield RowFault(where, "name", "is missing; give each node a name")
    elif not isinstance(name, str) or not _NAME.fullmatch(name):
        text = "expected at most 253 letters, digits, dots, dashes and underscores, not only digits"
        yield RowFault(where, "name", f"{name!r} is not valid; {text}")
    present = {field: value for field, value in given.items() if value is not None}
    for field, text in detail_changes.faults({name: present[name] for name in present if name in DETAILS}):
        yield RowFault(where, field, _about(present[field], text))
    rules = actions.rules(Action.SET_BMC).fields
    for field, parameter in BMC.items():
        fault = param_values.fault(rules[parameter], present[field]) if field in present else None
        if fault is not None:
            yield RowFault(where, field, _about(present[field], fault) if field == "bmc_address" else fault)


def _about(value: Any, text: str) -> str:
    """Put the value in front of the text, unless it has it. Not for a credential, which may be a secret."""
    has_it = isinstance(value, list) or (isinstance(value, str) and value in text)
    return text if has_it else f"{repr(value)[:80]} {text}"


def doubled(rows: Sequence[ImportRow]) -> Iterator[RowFault]:
    """Yield a fault for each name and each address that also occurs in an earlier row."""
    first: dict[tuple[str, Any], str] = {}
    for row in rows:
        macs = (detail_changes.canonical_mac(mac) for mac in row.values.get("macs", ()))
        machine = row.values.get("maas_id")
        marks: list[tuple[str, Any]] = [("name", row.name), *(("macs", mac) for mac in macs)]
        marks += [("maas_id", (row.values.get("site"), machine))] if machine else []
        marks += [("bmc_address", row.bmc["bmc_address"])] if "bmc_address" in row.bmc else []
        for field, mark in dict.fromkeys(marks):
            earlier = first.setdefault((field, mark), row.where)
            if earlier != row.where:
                shown = machine if field == "maas_id" else mark
                yield RowFault(row.where, field, f"{shown!r} also occurs in {earlier}; remove one of the two")
