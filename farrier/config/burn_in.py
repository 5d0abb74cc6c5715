"""The burn-in of a site's machines, a table of the site's file."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ValidationSite(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The tests that a machine passes before its node is active for the first time."""

    scripts: Annotated[
        tuple[Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]*[A-Za-z._-][A-Za-z0-9._-]*$", max_length=255)], ...],
        Meta(
            max_length=10,
            description="Names of testing scripts in MAAS. A machine that farrier installs for the first time must "
            "pass each of them, after its commissioning.",
        ),
    ] = ()
