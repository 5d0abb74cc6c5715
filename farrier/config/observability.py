"""Settings of what a process tells of itself: HTTP, metrics, log. Part of `groups`, which has the rules for all."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from farrier.log import Format, Level

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
# Kinds of places that a credential store knows.
_SCHEMES = frozenset({"file", "env", "systemd", "vault"})


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Metrics, health, API and views."""

    host: Annotated[
        str,
        # Nothing would be every address there is.
        Meta(min_length=1, description="Address to listen on. Beyond loopback, put a proxy with TLS in front."),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535, description="Port to listen on; 0 lets the system choose.")] = 9464
    names: Annotated[
        tuple[str, ...],
        Meta(
            description="Host names under which it is asked, as of a proxy that passes the Host header on. Any address "
            "and localhost are known; other hosts get 421, except for /metrics, /healthz and /readyz."
        ),
    ] = ()
    bearer_token: Annotated[
        str,
        Meta(
            description="Reference (file:, env:, …) of the token that POST requests need, on one line. Empty: all "
            "refused."
        ),
    ] = ""

    def __post_init__(self) -> None:
        if not (self.host.isascii() and self.host.isprintable()):
            raise ValueError("host is a name or an address in ASCII; a name with other letters begins with xn-- there")
        if wrong := [name for name in self.names if not _NAME.fullmatch(name)]:
            raise ValueError(
                f"names are host names, as in farrier.example.com, without scheme, port or path; got {wrong}"
            )
        scheme, _, where = self.bearer_token.partition(":")
        if self.bearer_token and not (scheme in _SCHEMES and where):
            raise ValueError("bearer_token is a reference, file:, env:, systemd: or vault:, to where the token is")


class MetricsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What metrics tell."""

    name_nodes: Annotated[
        bool,
        Meta(
            description="Name the nodes that are above an SLA, at most a hundred of them, in "
            "farrier_node_above_sla_seconds, so that an alert can say which."
        ),
    ] = True


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is logged, and how it looks."""

    level: Annotated[Level, Meta(description="The least that is logged.")] = Level.INFO
    format: Annotated[
        Format, Meta(description="auto is json under systemd or when redirected, and console on a terminal.")
    ] = Format.AUTO
