"""Monitors: programs of the site that state conditions of nodes; their reports, and what the database answers."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from farrier.model.node.conditions import Effect


class Verdict(StrEnum):
    """What became of a report."""

    TAKEN = "taken"
    UNMAPPED = "unmapped"  # no node is known by this name or serial number, or the report names no node or no condition
    FORBIDDEN = "forbidden"  # the monitor may not state this condition of this node with this effect
    MALFORMED = "malformed"
    FULL = "full"  # the node has as many conditions of the monitor as it may have, and none is a note


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a monitor says about one condition of a node. `by` is how `node` names the node: its name, its serial
    number, or (None) its name or ID. If `ends` is false, the condition stands until `expires_at`; without that time, as
    long as the grant of the monitor says."""

    node: str | None
    by: Literal["name", "serial"] | None = None
    id: str | None
    target: str = ""
    message: str = ""
    effect: str = Effect.NOTE
    expires_at: datetime | None = None
    ends: bool = False


class ReportAnswer(msgspec.Struct, frozen=True):
    """The answer to a report. With the verdict `taken`, `reason` is set only if the report was to end a condition that
    the node does not have."""

    verdict: Verdict
    reason: str | None


class MonitorView(msgspec.Struct, frozen=True, kw_only=True):
    """A monitor: what it may state, how many of its conditions stand and how many of them are unknown, and how many of
    its reports were not taken: in total, and of how many conditions within the last `lasts_seconds`. A condition stands
    for this time if it is not stated again. `labels` names the labels of alerts that differ from the defaults."""

    name: str
    login: str | None
    sites: tuple[str, ...]
    ids: tuple[str, ...]
    effect: Effect
    lasts_seconds: float
    labels: dict[str, str]
    brake_share: float | None
    brake_at_least: int | None
    granted_at: datetime
    granted_by: str
    conditions: int
    unknown: int
    refused: int
    refused_now: int


class RefusalView(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of one condition that were not taken. `node`, `id` and `target` are as the monitor gave them. `verdict`
    and `reason` are those of the last of `times` reports; `verdict` is also `truncated` (a part of a
    group of alerts was missing)."""

    monitor: str
    node: str
    id: str
    target: str
    verdict: str
    reason: str
    times: int
    first_at: datetime
    last_at: datetime
