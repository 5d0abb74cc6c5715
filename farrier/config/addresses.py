"""Addresses on which processes listen: which of them only this machine can reach, and which forms are accepted."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach the address. Any name except localhost counts as reachable by other
    machines."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_host(host: str) -> None:
    """Raise ValueError for a host that no resolver accepts."""
    if not (host.isascii() and host.isprintable()):
        raise ValueError("host must be a name or an address in ASCII; write other letters in their xn-- form")


def check_certificate(tls_cert: str, tls_key: str) -> None:
    """Raise ValueError if only one of the two files is set."""
    if bool(tls_cert) != bool(tls_key):
        raise ValueError("only one of tls_cert and tls_key is set; set both, or neither")
