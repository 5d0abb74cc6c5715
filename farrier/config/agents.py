"""The settings of the server that answers the agents."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from farrier.config.addresses import check_certificate, check_host, is_loopback

_URL = r"^(https://[^\s/?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)/?$"


class AgentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of farrier serve --agents, which serves the API of the agents."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address on which farrier serve --agents listens. If it is not loopback, tls_cert is required.",
        ),
    ] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port to listen on. With 0, the operating system chooses a free port.")
    ] = 9466
    tls_cert: Annotated[
        str,
        Meta(
            description="PEM file with the certificate of the server and its chain. farrier reads the file again on "
            "SIGHUP. Agents send their keys, so without a certificate farrier listens only on loopback."
        ),
    ] = ""
    tls_key: Annotated[
        str, Meta(description="PEM file with the key of tls_cert, without a password. Required if tls_cert is set.")
    ] = ""
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

    def __post_init__(self) -> None:
        check_host(self.host)
        check_certificate(self.tls_cert, self.tls_key)
        if not (self.tls_cert or is_loopback(self.host)):
            raise ValueError(
                "agents send their keys, so an address that is not loopback requires tls_cert and tls_key; set them, "
                "or set host to 127.0.0.1"
            )
