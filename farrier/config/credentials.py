"""Settings of credentials: where references may lead, and which host may be sent what. Part of `groups` and `sites`.

A binding pairs references with hosts and networks. Without one a client that registers nodes could have any secret sent
to any server, so nothing is bound by default.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated

import msgspec
from msgspec import Meta

_SCHEMES = ("file:", "env:", "systemd:", "vault:")
_HOST = re.compile(r"[a-z0-9*]([a-z0-9*._-]*[a-z0-9*])?|[0-9a-f:]+")
_ANY_NAME = re.compile(r"[*._-]*\*[*._-]*")  # no letter and no digit beside the stars
_STARRED_ADDRESS = re.compile(r"(?=.*\*)(?=.*[0-9])[0-9*.]+")


class CredentialBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """References that may be used for the BMCs of some hosts and networks, and for no others."""

    references: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="References that the hosts may be sent: * stands for characters other than / within a name.",
        ),
    ]
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Hosts of BMC addresses, in lower case: * stands for characters of a name other than a dot, "
            "never for a part of an address. Empty: any host, if its addresses are in networks."
        ),
    ] = ()
    networks: Annotated[
        tuple[str, ...],
        Meta(description="Networks in which every address of the host must be. Empty: any address of these hosts."),
    ] = ()

    def __post_init__(self) -> None:
        for reference in self.references:
            if not reference.startswith(_SCHEMES):
                raise ValueError(f"references begin with one of {', '.join(_SCHEMES)}; one of these does not")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"hosts are names or addresses in lower case, without scheme and port; got {host!r}")
            if _ANY_NAME.fullmatch(host) and not self.networks:
                raise ValueError(f"{host!r} matches any name, so a binding with it needs networks")
            if _STARRED_ADDRESS.fullmatch(host):
                raise ValueError(f"* stands for no part of an address; got {host!r}, give its network in networks")
        for network in self.networks:
            ipaddress.ip_network(network)
        if not self.hosts and not self.networks:
            raise ValueError("a binding without hosts and networks would send a secret anywhere; give one of them")


class CredentialsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where credential references may lead. A reference to any other place is refused before it is read."""

    file_roots: Annotated[
        tuple[str, ...], Meta(description="Directories in which file: references may lie, symlinks followed.")
    ] = ()
    env_prefix: Annotated[
        str, Meta(min_length=1, description="Variables that env: references may name begin with this.")
    ] = "FARRIER_SECRET_"
    bindings: Annotated[
        tuple[CredentialBinding, ...],
        Meta(
            description="Which BMCs may be sent which credentials, as [[credentials.bindings]] with references, hosts "
            "and networks; those of one site stand in its own file. A reference that nothing binds to a BMC's address "
            "is refused: the BMC is not dialled and the secret is not read. In the environment a JSON array."
        ),
    ] = ()

    def __post_init__(self) -> None:
        if not all(root.startswith("/") for root in self.file_roots):
            raise ValueError("file_roots are absolute paths")
