"""The settings of the server that answers the agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

_URL = r"^(https://[^\s/?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)/?$"


class AgentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of farrier serve --agents, which serves the API of the agents."""

    url: Annotated[
        str,
        Meta(
            pattern=f"^$|{_URL}",
            description="URL at which machines reach farrier serve --agents, such as https://agents.example:9466. If "
            "set, deployed machines of sites without a template of their own get farrier's agent.",
        ),
    ] = ""
    ca: Annotated[
        str,
        Meta(
            description="PEM file with the certificate authorities of this URL, which farrier writes into the user "
            "data. If empty, agents use the certificate authorities of their operating system."
        ),
    ] = ""
