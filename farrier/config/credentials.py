"""The settings of credentials: allowed references, and the hosts that may receive each secret. `groups` and `sites`
contain them.

A binding allows references for hosts and networks. By default, no host may receive any secret, because a client that
registers nodes could otherwise make farrier send any secret to any server.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Annotated

import msgspec
from msgspec import Meta

from farrier.model.credential import Scheme

SCHEMES = tuple(f"{scheme}:" for scheme in Scheme)
"""How a reference to a secret begins."""
_HOST = re.compile(r"[a-z0-9*]([a-z0-9*._-]*[a-z0-9*])?|[0-9a-f:]+")
_ANY_NAME = re.compile(r"[*._-]*\*[*._-]*")  # a name that consists of stars, dots and dashes only
_STARRED_ADDRESS = re.compile(r"(?=.*\*)(?=.*[0-9])[0-9*.]+")


def is_reference(text: str) -> bool:
    """Return whether a text is a reference to a secret, and not the secret itself."""
    return text.startswith(SCHEMES) and text not in SCHEMES


def check_networks(key: str, networks: Iterable[str]) -> None:
    """Raise ValueError for a text that is not a network."""
    for network in networks:
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            raise ValueError(f"{key}: expected networks such as 10.0.0.0/8; {error}") from None


class CredentialBinding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Allows references for the BMCs of some hosts and networks."""

    references: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="References whose secrets may be sent to these hosts. * matches any characters except /.",
        ),
    ]
    hosts: Annotated[
        tuple[str, ...],
        Meta(
            description="Host names of BMCs, in lower case. * matches any characters within one label (the part "
            "between two dots), but never a part of an IP address. If empty, the binding applies to every host "
            "whose addresses are in networks."
        ),
    ] = ()
    networks: Annotated[
        tuple[str, ...],
        Meta(
            description="Every address of the host must be in one of these networks. If empty, these hosts may have "
            "any address."
        ),
    ] = ()

    def __post_init__(self) -> None:
        for reference in self.references:
            if not reference.startswith(SCHEMES):
                raise ValueError(f"every reference must begin with one of {', '.join(SCHEMES)}")
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(
                    f"expected host names or addresses in lower case, without scheme and port; got {host!r}"
                )
            if _ANY_NAME.fullmatch(host) and not self.networks:
                raise ValueError(f"{host!r} matches any name, so this binding also needs networks")
            if _STARRED_ADDRESS.fullmatch(host):
                raise ValueError(f"* cannot stand for part of an address; got {host!r}, set networks instead")
        check_networks("networks", self.networks)
        if not self.hosts and not self.networks:
            raise ValueError(
                "a binding needs hosts, networks or both: without them its secret could be sent to any address"
            )


class CredentialsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The allowed targets of credential references. A reference to any other target is refused before farrier reads the
    secret."""

    file_roots: Annotated[
        tuple[str, ...],
        Meta(
            description="Directories that may contain the files of file: references. farrier resolves symlinks "
            "before it compares the paths."
        ),
    ] = ()
    env_prefix: Annotated[
        str, Meta(min_length=1, description="Prefix of the environment variables that env: references may name.")
    ] = "FARRIER_SECRET_"
    bindings: Annotated[
        tuple[CredentialBinding, ...],
        Meta(
            description="The credentials that farrier may send, and the BMCs that may receive them. Each table "
            "[[credentials.bindings]] has references, hosts and networks. A site may have further bindings in its "
            "file. If no binding allows farrier to use a reference for the address of a BMC, farrier does not read "
            "the secret and does not contact the BMC. The environment variable contains a JSON array."
        ),
    ] = ()

    def __post_init__(self) -> None:
        if relative := [root for root in self.file_roots if not root.startswith("/")]:
            raise ValueError(f"file_roots must be absolute paths, such as /run/secrets; got {relative[0][:100]!r}")
