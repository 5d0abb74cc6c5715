"""The TLS policy of all connections to services. For BMCs, there is a default policy and exceptions by host.

The policy is the same with every release of Python and OpenSSL, and with every system-wide configuration of OpenSSL.
Verification against a CA is the default, and the only policy for MAAS, UFM and Vault. A pinned certificate replaces
this verification, including the check of the name. An insecure policy or other ciphers must be configured explicitly,
and the code that opens the client logs them. Versions of TLS before 1.2 are never used.
"""

from __future__ import annotations

import ssl
from typing import NamedTuple

from farrier import errors
from farrier.config import BmcTrustConfig

# Ciphers with forward secrecy and authenticated encryption or AES, as in Python 3.10 and later.
CIPHERS = "ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:DHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
# Keys of RSA with 2048 bits and no signatures with SHA-1. An operator's ciphers may name another level.
LEVEL = "@SECLEVEL=2"
# Ciphers without authentication or encryption; no setting allows them.
NEVER = "!aNULL:!eNULL"

# An intermediate CA in the file is trusted, so a site needs no copy of its root. VERIFY_X509_STRICT, the default from
# Python 3.13 on, is not set: it refuses the CAs of many sites, which were made before RFC 5280, for missing extensions.
FLAGS = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


class TlsPolicy(NamedTuple):
    """A TLS policy: the context of connections, and the SHA-256 digest of the only trusted certificate, if it is
    pinned."""

    context: ssl.SSLContext
    digest: bytes | None = None


def policy_of(trust: BmcTrustConfig, context: ssl.SSLContext | None = None) -> TlsPolicy:
    """Return the policy of BMCs with these settings, with a new context or with this one. Raises `ConfigError` for an
    unusable file, fingerprint or list of ciphers."""
    context = _usual(context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), trust.ciphers)
    if not trust.insecure and not trust.fingerprint:
        return TlsPolicy(_trusting(context, trust.ca_file))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return TlsPolicy(context, _digest(trust.fingerprint) if trust.fingerprint else None)


def verifying(ca_file: str = "") -> ssl.SSLContext:
    """Return the context that verifies the dialled name with the CAs in this PEM file or, without a file, with this
    host's CA store. Raises `ConfigError` for an unusable file."""
    return _trusting(_usual(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ""), ca_file)


def _trusting(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    try:
        if ca_file:
            context.load_verify_locations(cafile=ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except OSError as error:  # includes SSLError, which a file without a certificate raises
        raise errors.ConfigError(
            f"ca_file: cannot load CA certificates from {ca_file}: {error.strerror or error}; expected a PEM file"
        ) from error
    return context


def _usual(context: ssl.SSLContext, ciphers: str) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
    context.verify_flags = FLAGS
    try:
        context.set_ciphers(f"{LEVEL}:{ciphers}:{NEVER}" if ciphers else f"{LEVEL}:{CIPHERS}")
    except ssl.SSLError as error:
        raise errors.ConfigError(
            f"ciphers: OpenSSL knows none of {ciphers!r}; expected a list such as AES256-SHA:AES128-SHA, as printed "
            "by: openssl ciphers -v"
        ) from error
    return context


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
