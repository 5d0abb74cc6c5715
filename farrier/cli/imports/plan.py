"""Determines the changes of an import: for each row, a node to create, a node to change, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from farrier.cli.imports.file import BMC, ImportRow
from farrier.cli.settings.connection import CommandSession
from farrier.model.node import detail_changes
from farrier.model.node.detail_changes import DetailChanges
from farrier.model.node.details import DEFAULTS
from farrier.model.views.nodes import NodeFilter, NodeView

_PAGE = 500


class ImportStep(msgspec.Struct, frozen=True, kw_only=True):
    """The change that an import would make for a row. `node` is None if a node is to be created. `details` are the
    parameters of `set`, and `bmc` those of `set_bmc`; both are empty if nothing changes."""

    row: ImportRow
    node: NodeView | None
    details: Mapping[str, Any]
    bmc: Mapping[str, str]

    @property
    def verb(self) -> str:
        if self.node is None:
            return "create"
        return "change" if self.details or self.bmc else "unchanged"

    @property
    def words(self) -> str:
        """Return the new values, each with the present value if it is known."""
        return ", ".join(self._word(name, value) for name, value in {**self.details, **self.bmc}.items())

    def _word(self, name: str, value: Any) -> str:
        if isinstance(value, Mapping):
            before = getattr(self.node, name, None) or {}
            return " ".join(f"{name}.{key}={each}" for key, each in value.items() if before.get(key) != each)
        text = ",".join(value) if isinstance(value, list | tuple) else str(value)
        before = getattr(self.node, name, None) if name in DEFAULTS else None
        return f"{name}={before}→{text}" if isinstance(before, str) else f"{name}={text}"


async def plan(session: CommandSession, rows: Sequence[ImportRow]) -> tuple[ImportStep, ...]:
    """Compare the rows with the registered nodes."""
    present: dict[str, NodeView] = {}
    for start in range(0, len(rows), _PAGE):
        names = tuple(row.name for row in rows[start : start + _PAGE])
        page = await session.queries.inventory(NodeFilter(names=names), limit=_PAGE)
        present |= {node.name: node for node in page.rows}
    return tuple([await _step(session, row, present.get(row.name)) for row in rows])


async def _step(session: CommandSession, row: ImportRow, node: NodeView | None) -> ImportStep:
    given = {parameter: row.bmc[field] for field, parameter in BMC.items() if field in row.bmc}
    if node is None:
        return ImportStep(row=row, node=None, details=row.values, bmc=given)
    if given or "macs" in row.values:  # a line of the inventory has neither of these details
        detail = (await session.queries.node(str(node.id))).rows[0]
        now = {"address": detail.bmc_address, "credential": detail.bmc_credential}
        given = {parameter: value for parameter, value in given.items() if now[parameter] != value}
        node = detail
    labels = row.values.get("labels", {})
    values = {name: value for name, value in row.values.items() if name != "labels"}
    changed = detail_changes.params(DetailChanges(values=values, labels=labels), node)
    return ImportStep(row=row, node=node, details=changed, bmc=given)
