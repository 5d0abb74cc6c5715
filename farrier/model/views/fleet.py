"""Views of the fleet, for operators and other programs: controllers with their shards, doors, and the brakes of sites.

`protocols.Queries` returns these views; the command line and the web show them.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

import msgspec

from farrier.model.loop.controllers import ACT_FOR
from farrier.model.loop.doors import DeadDoors, DoorView
from farrier.model.node.layers import Management, NodeStatus, WorkflowStatus


class Life(StrEnum):
    """The state of a controller, derived from the time of its last renewal."""

    ALIVE = "alive"
    LEAVING = "leaving"  # it stops, and gives its shards back
    OUT_OF_TOUCH = "out of touch"  # it may not act, and other controllers will soon declare it dead
    EXPIRED = "expired"  # another controller declared it dead


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The shards of one kind. `lag` is the delay, in seconds, of the most delayed run of the kind at the last renewal.
    It is None if the controller does not run the kind."""

    kind: str
    shards: int
    lag: float | None = None


class ControllerView(msgspec.Struct, frozen=True, kw_only=True):
    """The controller of a daemon. `shares` has one element for each kind that the controller runs, or whose shards it
    owns."""

    id: UUID
    name: str
    release: str
    started_at: datetime
    renewed_at: datetime
    expired: bool
    leaving: bool = False
    shares: tuple[Share, ...]

    def life(self, now: datetime) -> Life:
        """Return the state of the controller at the database's time `now`."""
        if self.expired:
            return Life.EXPIRED
        if now - self.renewed_at > timedelta(seconds=ACT_FOR):
            return Life.OUT_OF_TOUCH
        return Life.LEAVING if self.leaving else Life.ALIVE


class ShardOwnership(msgspec.Struct, frozen=True, kw_only=True):
    """The owners of all shards, the shards without an owner, and the doors. Controllers and doors are ordered by name,
    but expired controllers come first. `dead_doors` says since when and why the silence of agents that use doors does
    not count; it is None while doors reach agents, or if nothing depends on doors."""

    now: datetime
    controllers: tuple[ControllerView, ...]
    unowned: tuple[Share, ...]
    doors: tuple[DoorView, ...] = ()
    dead_doors: DeadDoors | None = None


class BrakeView(msgspec.Struct, frozen=True, kw_only=True):
    """The brake of a site for one cause (`source`) that holds nodes, or the brakes of a site, which an operator has
    lifted together. The site is empty for the nodes without a site. A cause is the source of a condition, or
    `conditions.SILENCE`.

    `held` is how many nodes the brake keeps in service, and `nodes` names the first of them. Of `in_service` nodes in
    service, `leaving` left it within the window or are held. The brake has held nodes since `since`. While the brake is
    lifted, it holds no node, so these fields are empty.
    """

    site: str
    source: str | None = None
    since: datetime | None = None
    held: int = 0
    leaving: int | None = None
    in_service: int | None = None
    nodes: tuple[str, ...] = ()
    lifted_until: datetime | None = None
    lifted_by: str | None = None
    lift_reason: str | None = None

    @property
    def where(self) -> str:
        """The site in a sentence."""
        return f"site {self.site}" if self.site else "the nodes without a site"


class NodeGlance(msgspec.Struct, frozen=True):
    """The state of a node in one line, for simulated fleets. `reason` is the last reason of the node's workflow, BMC or
    run. The last three fields belong to the node's live workflow."""

    id: int
    name: str
    status: NodeStatus
    management: Management
    reason: str
    workflow_status: WorkflowStatus | None = None
    stage: str | None = None
    failure: str | None = None

    @property
    def arrived(self) -> bool:
        """Whether the node is in service and its BMC, if it has one, is usable."""
        usable = self.management in (Management.MANAGEABLE, Management.UNMANAGED)
        return self.status is NodeStatus.ACTIVE and usable
