"""The size of a world, and limits on the events in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Budget:
    """How often each event from outside the controllers may still happen."""

    asks: int = 0
    edits: int = 0
    crashes: int = 0
    pauses: int = 0
    lost_notifications: int = 0
    lost_replies: int = 0
    silences: int = 0


@dataclass
class Size:
    """The resources, shards and processes of a world. Runs of resources with odd ids take a step."""

    ids: tuple[int, ...] = (0, 1)
    shards: int = 2
    processes: int = 2
    reload_every: float = 20.0
