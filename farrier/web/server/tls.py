"""The certificate of the HTTP server, which can be replaced while the server runs."""

from __future__ import annotations

import ssl
from contextlib import suppress
from pathlib import Path

from farrier.errors import ConfigError


class Certificate:
    """A certificate with its chain in one PEM file, and its key in another PEM file."""

    def __init__(self, cert: str, key: str, *, section: str = "http") -> None:
        """Load the files, which this section of the settings names. Raises ConfigError for unusable files."""
        self._section = section
        self._cert = cert
        self._key = key
        self._current = self._loaded()
        # The server keeps this context, and each connection switches to the current one: a used context keeps the
        # certificates of other types of keys that it has loaded, and may serve one of them.
        self.context = self._loaded()
        self.context.sni_callback = self._switch

    def reload(self) -> None:
        """Read the files again, for new connections. If it raises ConfigError, the present certificate stays in use."""
        self._current = self._loaded()

    def _switch(self, connection: ssl.SSLObject, *_: object) -> None:
        connection.context = self._current

    def fault(self) -> str | None:
        """Return the reason why every client refuses the certificate or its direct issuer, for example that the
        certificate has expired. Return None if a client that trusts the issuer accepts the certificate. The module ssl
        shows the dates of a certificate only to a client, so this makes a handshake in memory."""
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # trust the certificate itself, not only a root
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        try:
            trusting.load_verify_locations(self._cert)
            client = trusting.wrap_bio(to_client, to_server)
            server = self._current.wrap_bio(to_server, to_client, server_side=True)
            for side in (client, server, client):  # the client's hello, the server's certificate, the client's check
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLCertVerificationError as refused:
            return refused.verify_message
        except OSError as failure:  # no cipher fits the key, or the file was just replaced
            return str(failure)
        return None

    def _loaded(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        for setting, path in (("tls_cert", self._cert), ("tls_key", self._key)):
            try:
                Path(path).read_bytes()
            except (OSError, ValueError) as failure:
                why = failure.strerror if isinstance(failure, OSError) else failure
                raise ConfigError(f"{self._section}.{setting}: {path!r} cannot be read: {why}") from failure
        try:
            # With an empty password, OpenSSL does not ask for a password on the terminal.
            context.load_cert_chain(self._cert, self._key, password="")
        except ssl.SSLError as failure:
            files = f"{self._section}.tls_cert {self._cert!r} and {self._section}.tls_key {self._key!r}"
            raise ConfigError(
                f"{files}: expected a certificate and its key in PEM, without a password: {failure.reason or failure}"
            ) from failure
        return context
