"""The TLS policy of BMCs: the usual one (`farrier.tls`), and exceptions by host.

A pinned certificate replaces the verification against a CA, including the check of the name. An insecure policy or
other ciphers must be configured explicitly, and the code that opens the client logs them.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from farrier import tls
from farrier.config import BmcTrustConfig
from farrier.errors import ConfigError


class TlsPolicy(NamedTuple):
    """A TLS policy: the context of connections, and the SHA-256 digest of the only trusted certificate, if it is
    pinned."""

    context: ssl.SSLContext
    digest: bytes | None = None


def policy_of(trust: BmcTrustConfig, context: ssl.SSLContext | None = None) -> TlsPolicy:
    """Return the policy of BMCs with these settings, with a new context or with this one. Raises `ConfigError` for an
    unusable file, fingerprint or list of ciphers."""
    context = tls.usual(context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust.ciphers)
    if not trust.insecure and not trust.fingerprint:
        return TlsPolicy(tls.trusting(context, trust.ca_file))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return TlsPolicy(context, _digest(trust.fingerprint) if trust.fingerprint else None)


def _digest(text: str) -> bytes:
    try:
        digest = bytes.fromhex(text.replace(":", ""))
    except ValueError:
        digest = b""
    if len(digest) != 32:
        raise ConfigError(
            f"{text!r} is not a SHA-256 fingerprint; expected 64 hexadecimal digits, as printed by: openssl x509 "
            "-noout -fingerprint -sha256 -in CERTIFICATE"
        )
    return digest
