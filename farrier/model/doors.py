"""The doors: server processes that answer other programs, so that no controller does. Pure data."""

from __future__ import annotations

from enum import StrEnum


class DoorKind(StrEnum):
    """What a door answers."""

    PAGES = "pages"  # people and programs
    AGENTS = "agents"
