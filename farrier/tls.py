"""The TLS policy of the connections that farrier opens: the same with every release of Python and OpenSSL, and with
every system-wide configuration of OpenSSL.

Versions of TLS before 1.2 are never used. Verification against a CA is the default, and the only policy for MAAS, UFM,
Vault and farrier's own servers; `services.http.trust` has the exceptions for BMCs.
"""

from __future__ import annotations

import ssl

from farrier.errors import ConfigError

# Ciphers with forward secrecy and authenticated encryption or AES, as in Python 3.10 and later.
CIPHERS = "ECDH+AESGCM:ECDH+CHACHA20:ECDH+AES:DHE+AES:!aNULL:!eNULL:!aDSS:!SHA1:!AESCCM"
# Keys of RSA with 2048 bits and no signatures with SHA-1. An operator's ciphers may name another level.
LEVEL = "@SECLEVEL=2"
# Ciphers without authentication or encryption; no setting allows them.
NEVER = "!aNULL:!eNULL"

# An intermediate CA in the file is trusted, so a site needs no copy of its root. VERIFY_X509_STRICT, the default from
# Python 3.13 on, is not set: it refuses the CAs of many sites, which were made before RFC 5280, for missing extensions.
FLAGS = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN


def verifying(ca_file: str = "") -> ssl.SSLContext:
    """Return the context that verifies the dialled name with the CAs in this PEM file or, without a file, with this
    host's CA store. Raises `ConfigError` for an unusable file."""
    return trusting(usual(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)), ca_file)


def trusting(context: ssl.SSLContext, ca_file: str) -> ssl.SSLContext:
    """Return the context, which from now on trusts these CAs. Raises `ConfigError` for an unusable file."""
    try:
        if ca_file:
            context.load_verify_locations(cafile=ca_file)
        else:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except OSError as error:  # includes SSLError, which a file without a certificate raises
        raise ConfigError(
            f"ca_file: cannot load CA certificates from {ca_file}: {error.strerror or error}; expected a PEM file"
        ) from error
    return context


def usual(context: ssl.SSLContext, ciphers: str = "") -> ssl.SSLContext:
    """Return the context with the versions, checks and ciphers of the policy, or with these ciphers. Raises
    `ConfigError` for ciphers that OpenSSL does not know."""
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED
    context.verify_flags = FLAGS
    try:
        context.set_ciphers(f"{LEVEL}:{ciphers}:{NEVER}" if ciphers else f"{LEVEL}:{CIPHERS}")
    except ssl.SSLError as error:
        raise ConfigError(
            f"ciphers: OpenSSL knows none of {ciphers!r}; expected a list such as AES256-SHA:AES128-SHA, as printed "
            "by: openssl ciphers -v"
        ) from error
    return context
