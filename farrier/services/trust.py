"""TLS policies. For BMCs, there is a default policy and exceptions by host; other services are always verified.

Verification against a CA is the default, and the only policy for MAAS, UFM and Vault. A pinned certificate replaces
this verification, including the check of the name. An insecure policy must be configured explicitly, and the code that
opens the client logs it. Versions of TLS before 1.2 are never used.
"""

from __future__ import annotations

import ssl

import aiohttp

from farrier import errors
from farrier.config import BmcTrustConfig


def connector_ssl(trust: BmcTrustConfig) -> ssl.SSLContext | aiohttp.Fingerprint | bool:
    """Return the `ssl` argument of aiohttp's connector. Raises `ConfigError` for an unusable file or fingerprint."""
    if trust.insecure:
        return False
    return aiohttp.Fingerprint(_digest(trust.fingerprint)) if trust.fingerprint else verifying(trust.ca_file)


def verifying(ca_file: str = "") -> ssl.SSLContext:
    """Return the context that verifies the dialled name with the CAs in this PEM file or, without a file, with this
    host's CA store. Raises `ConfigError` for an unusable file."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:  # includes SSLError, which a file without a certificate raises
        raise errors.ConfigError(
            f"ca_file: cannot load CA certificates from {ca_file}: {error.strerror or error}; expected a PEM file"
        ) from error


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise errors.ConfigError(
            f"{text!r} is not a SHA-256 fingerprint; expected 64 hexadecimal digits, as printed by: openssl x509 "
            "-noout -fingerprint -sha256 -in CERTIFICATE"
        )
    return digest
