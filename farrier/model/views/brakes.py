"""A view of the brakes of sites, for operators and other programs: the nodes that they hold in service, and lifts."""

from __future__ import annotations

from datetime import datetime

import msgspec


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
