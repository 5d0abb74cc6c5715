"""The settings of network segments, as one section of the settings. The docstring of `groups` has the rules for all
settings."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec
from msgspec import Meta


class SegmentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the deletion of network segments."""

    drain_period: Annotated[
        timedelta,
        Meta(
            description="How long a segment stays in deletion after its last address was released. During this time, "
            "ARP and neighbour caches drop the address, and stopped machines lose it. The prefix can be used again "
            "only after this time."
        ),
    ] = timedelta(minutes=5)

    def __post_init__(self) -> None:
        if self.drain_period < timedelta(0):
            raise ValueError(
                "drain_period must not be negative; with 0s a deletion ends as soon as the last address is released"
            )
