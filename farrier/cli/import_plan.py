"""Determines the changes of an import: for each row, a node to create, a node to change, or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from farrier.cli.connection import Session
from farrier.cli.import_file import BMC, Row
from farrier.model import detail_changes
from farrier.model.detail_changes import Changes
from farrier.model.details import DEFAULTS
from farrier.model.views import NodeView, Wanted

_PAGE = 500


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The change that an import would make for a row. `node` is None if a node is to be created. `details` are the
    parameters of `set`, and `bmc` those of `set_bmc`; both are empty if nothing changes."""

    row: Row
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


async def plan(session: Session, rows: Sequence[Row]) -> tuple[Step, ...]:
    """Compare the rows with the registered nodes."""
    present: dict[str, NodeView] = {}
    for start in range(0, len(rows), _PAGE):
        names = tuple(row.name for row in rows[start : start + _PAGE])
        page = await session.queries.inventory(Wanted(names=names), limit=_PAGE)
        present |= {node.name: node for node in page.rows}
    return tuple([await _step(session, row, present.get(row.name)) for row in rows])


async def _step(session: Session, row: Row, node: NodeView | None) -> Step:
    given = {parameter: row.bmc[field] for field, parameter in BMC.items() if field in row.bmc}
    if node is None:
        return Step(row=row, node=None, details=row.values, bmc=given)
    if given or "macs" in row.values:  # a line of the inventory has neither of these details
        detail = (await session.queries.node(str(node.id))).rows[0]
        now = {"address": detail.bmc_address, "credential": detail.bmc_credential}
        given = {parameter: value for parameter, value in given.items() if now[parameter] != value}
        node = detail
    labels = row.values.get("labels", {})
    values = {name: value for name, value in row.values.items() if name != "labels"}
    changed = detail_changes.params(Changes(values=values, labels=labels), node)
    return Step(row=row, node=node, details=changed, bmc=given)
