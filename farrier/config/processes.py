"""The settings of processes: the addresses on which they listen, metrics, traces and the log, and the API that commands
use instead of the database."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from farrier.config.credentials import is_reference
from farrier.log import Format, Level

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")
_ABSOLUTE = re.compile(r"https?://[^\s/]+(/\S*)?")
_AGENTS_URL = r"^(https://[^\s/?#]+|http://(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)/?$"
_PLACE = re.compile(r"\{([^{}]*)\}")
# The names that `dashboards_url` may contain in braces. farrier replaces each by the value of the resource.
_OF_A_RESOURCE = ("kind", "name", "site")

_Port: TypeAlias = Annotated[
    int, Meta(ge=0, le=65535, description="Port to listen on. With 0, the operating system chooses a free port.")
]
_TlsKey: TypeAlias = Annotated[
    str, Meta(description="PEM file with the key of tls_cert, without a password. Required if tls_cert is set.")
]


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. Any name except localhost counts as reachable by other
    machines."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_host(host: str) -> None:
    """Raise ValueError for a host that no resolver accepts."""
    if not (host.isascii() and host.isprintable()):
        raise ValueError("host must be a name or an address in ASCII; write other letters in their xn-- form")


def _check_certificate(tls_cert: str, tls_key: str) -> None:
    """Raise ValueError if only one of the two files is set."""
    if bool(tls_cert) != bool(tls_key):
        raise ValueError("only one of tls_cert and tls_key is set; set both, or neither")


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of farrier serve, which serves the pages and the HTTP API."""

    host: Annotated[
        str,
        # With an empty host, the server would listen on every address.
        Meta(
            min_length=1,
            description="Address on which farrier serve listens. If it is not loopback, every request needs a token, "
            "except for /metrics, /healthz and /readyz.",
        ),
    ] = "127.0.0.1"
    port: _Port = 9465
    names: Annotated[
        tuple[str, ...],
        Meta(
            description="Host names that farrier accepts in the Host header of a request, such as the name of a "
            "proxy that forwards this header. farrier always accepts IP addresses and localhost. It responds to a "
            "request for another host with the status 421, except for /metrics, /healthz and /readyz."
        ),
    ] = ()
    bearer_token: Annotated[
        str,
        Meta(
            description="Reference (file:, env:, …) to an API token with all scopes. A file contains the token "
            "on its only line."
        ),
    ] = ""
    tokens_file: Annotated[
        str,
        Meta(
            description="TOML file with the names, hashes and scopes of API tokens. farrier token create prints an "
            "entry for this file. farrier reads the file at the start and on SIGHUP. If this setting and "
            "bearer_token are both empty, farrier refuses all requests that need a token."
        ),
    ] = ""
    tls_cert: Annotated[
        str,
        Meta(
            description="PEM file with the certificate of the server and its chain. If set, farrier serves only "
            "HTTPS. farrier reads the file again on SIGHUP. If empty, farrier serves HTTP without TLS."
        ),
    ] = ""
    tls_key: _TlsKey = ""

    dashboards_url: Annotated[
        str,
        Meta(
            description="URL of the dashboard of a resource. The page of the resource links to it. {kind}, {name} and"
            " {site} stand for the resource's values: https://grafana.example.com/d/gpu?var-node={name}. If empty, "
            "the page has no link."
        ),
    ] = ""

    def __post_init__(self) -> None:
        _check_host(self.host)
        if wrong := [name for name in self.names if not _NAME.fullmatch(name)]:
            raise ValueError(
                f"expected host names such as farrier.example.com, without scheme, port or path; got {wrong}"
            )
        _check_certificate(self.tls_cert, self.tls_key)
        if self.bearer_token and not is_reference(self.bearer_token):
            raise ValueError(
                "bearer_token must be a reference to the token (file:, env:, systemd: or vault:), not the token itself"
            )
        if self.dashboards_url and not _ABSOLUTE.fullmatch(self.dashboards_url):
            raise ValueError(
                "dashboards_url must be an absolute URL such as https://grafana.example.com/d/gpu?var-node={name}; got "
                f"{self.dashboards_url!r}"
            )
        if wrong := [place for place in _PLACE.findall(self.dashboards_url) if place not in _OF_A_RESOURCE]:
            raise ValueError(f"dashboards_url: expected {', '.join(_OF_A_RESOURCE)} in braces, got {{{wrong[0]}}}")


class AgentsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of farrier serve --agents, which serves the API of the agents."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address on which farrier serve --agents listens. If it is not loopback, tls_cert is required.",
        ),
    ] = "127.0.0.1"
    port: _Port = 9466
    tls_cert: Annotated[
        str,
        Meta(
            description="PEM file with the certificate of the server and its chain. farrier reads the file again on "
            "SIGHUP. Agents send their keys, so without a certificate farrier listens only on loopback."
        ),
    ] = ""
    tls_key: _TlsKey = ""
    url: Annotated[
        str,
        Meta(
            pattern=f"^$|{_AGENTS_URL}",
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
        _check_host(self.host)
        _check_certificate(self.tls_cert, self.tls_key)
        if not (self.tls_cert or is_loopback(self.host)):
            raise ValueError(
                "agents send their keys, so an address that is not loopback requires tls_cert and tls_key; set them, "
                "or set host to 127.0.0.1"
            )


class MetricsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the controller's metrics and probes."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            description="Address on which farrier run listens. It serves only /metrics, /healthz and /readyz, and "
            "responds to any client. So only Prometheus and probes should reach this address.",
        ),
    ] = "127.0.0.1"
    port: _Port = 9464
    name_resources: Annotated[
        bool,
        Meta(
            description="Whether metrics may name resources. If true, farrier_resource_above_sla_seconds names "
            "up to a hundred nodes and other resources above a limit, so that alerts can name them, "
            "and exemplars of counters and histograms name resources."
        ),
    ] = True
    runbooks_url: Annotated[
        str,
        Meta(
            description="URL at which the pages of docs/ of this version are published, for the links of "
            "farrier alerts and farrier dashboard. If the URL contains {page}, as in "
            "https://docs.example.com/{page}/, the path of a page replaces {page}; otherwise farrier "
            "appends the path and .md. If empty, the links are file paths in the source repository."
        ),
    ] = ""

    def __post_init__(self) -> None:
        _check_host(self.host)
        if self.runbooks_url and not _ABSOLUTE.fullmatch(self.runbooks_url):
            raise ValueError(
                f"runbooks_url must be an absolute URL such as https://docs.example.com; got {self.runbooks_url!r}"
            )


class TracesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of OpenTelemetry traces."""

    endpoint: Annotated[
        str,
        Meta(
            description="URL of an OpenTelemetry collector (OTLP over HTTP), such as http://127.0.0.1:4318. If a run "
            "calls a service, farrier sends a trace of the run to this collector. Requires the extra otel. If "
            "empty, farrier sends no traces."
        ),
    ] = ""
    share: Annotated[
        float,
        Meta(
            ge=0,
            le=1,
            description="farrier traces this share, from 0 to 1, of the runs that call services.",
        ),
    ] = 1.0

    def __post_init__(self) -> None:
        if self.endpoint and not _ABSOLUTE.fullmatch(self.endpoint):
            raise ValueError(f"endpoint must be an absolute URL such as http://127.0.0.1:4318; got {self.endpoint!r}")


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the log."""

    level: Annotated[Level, Meta(description="Lowest log level that farrier writes.")] = Level.INFO
    format: Annotated[
        Format,
        Meta(
            description="Format of log lines. The value auto means json under systemd or if standard error is "
            "redirected, and console on a terminal."
        ),
    ] = Format.AUTO


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
