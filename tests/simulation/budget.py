"""How large a world is, and what may happen in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """How often what happens rarely may still happen."""

    asks: int = 0
    edits: int = 0
    crashes: int = 0
    pauses: int = 0
    lost_notifications: int = 0
    lost_replies: int = 0
    silences: int = 0


@dataclass
class Size:
    """A resource with an odd id is outside."""

    ids: tuple[int, ...] = (0, 1)
    shards: int = 2
    processes: int = 2
    reload_every: float = 20.0
