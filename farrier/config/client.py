"""The settings of commands that use the HTTP API instead of the database."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ClientConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of commands that use the HTTP API instead of the database. The daemon ignores them."""

    api: Annotated[
        str,
        Meta(
            description="URL of a running farrier, such as https://farrier.example. If this setting is empty, "
            "commands connect to the database."
        ),
    ] = ""
    token_file: Annotated[
        str,
        Meta(
            description="File that contains the bearer token for the API on its only line. If this setting is "
            "empty, commands send no token."
        ),
    ] = ""
    ca_file: Annotated[
        str,
        Meta(
            description="PEM file with the certificate authorities that sign the certificate of the server. If this "
            "setting is empty, commands use the certificate authorities of the operating system."
        ),
    ] = ""
