"""Resolves credential references: `file:`, `env:`, `systemd:` and `vault:`.

    file:/run/creds/bmc-1       a file below one of the configured directories, after symlinks
    env:FARRIER_SECRET_BMC      an environment variable with the configured prefix
    systemd:bmc                 a file in the unit's credentials directory (LoadCredential=)
    vault:farrier/bmc/gpu-1     a secret of a Vault KV v2 mount, below the configured path

`wiring` opens the store. If a reference leads to a place that is not configured, it is refused before farrier reads a
file or opens a connection. Sources on this machine are read again for each call; secrets of Vault are cached for some
seconds. White space and a byte order mark around the secret in a file are ignored, with a warning. No error text
repeats the content of a source.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import anyio.to_thread
import structlog
from typing_extensions import override

from farrier import protocols
from farrier.config import CredentialsConfig, VaultConfig
from farrier.errors import CredentialError
from farrier.model.credential import Credential, Scheme
from farrier.services.credentials import files, forms
from farrier.services.credentials.forms import SecretFormat, SecretSource

if TYPE_CHECKING:
    from farrier.services.vault.client import Vault

_log = structlog.stdlib.get_logger(__name__)


@asynccontextmanager
async def open_credentials(
    places: CredentialsConfig,
    vault: VaultConfig,
    *,
    clock: protocols.Clock,
    observer: protocols.ServiceObserver,
) -> AsyncIterator[Credentials]:
    """Open the store, which closes with the context. Without an address of Vault, there is no Vault. Raises
    `ConfigError` for an unusable CA file."""
    local = Credentials(places)
    if not vault.address:
        yield local
        return
    # The client loads the HTTP library, which a server without Vault never needs.
    from farrier.services.vault.client import open_vault

    # The token is read before each request, so an agent that renews the file need not notify the daemon.
    token = partial(local.token, vault.token)
    async with open_vault(vault, token=token, clock=clock, observer=observer) as opened:
        yield Credentials(places, vault=opened)


class Credentials(protocols.CredentialStore):
    """The `CredentialStore` for all schemes."""

    def __init__(
        self, places: CredentialsConfig, *, vault: Vault | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        self._places = places
        self._roots = tuple(map(Path, places.file_roots))
        self._vault = vault
        self._environ = environ
        self._warned: set[str] = set()

    @override
    async def resolve(self, reference: str) -> Credential:
        source = await self._read(reference)
        username, password = forms.pair(reference, source)
        return Credential(
            username=username,
            password=password,
            version=forms.version(reference, source, username, password),
        )

    @override
    async def version(self, reference: str) -> str:
        return (await self.resolve(reference)).version

    @override
    async def token(self, reference: str) -> str:
        """Return the current secret of a reference without a user name, such as a bearer token. Raises
        `CredentialError`."""
        return forms.token(reference, await self._read(reference))

    async def _read(self, reference: str) -> SecretSource:
        scheme, rest = forms.parts(reference)
        match scheme:
            case Scheme.FILE:
                read = partial(files.read_file, reference, rest, roots=self._roots)
                return self._trimmed(reference, await anyio.to_thread.run_sync(read))
            case Scheme.SYSTEMD:
                directory = self._environ.get("CREDENTIALS_DIRECTORY")
                read = partial(files.read_systemd, reference, rest, directory=directory)
                return self._trimmed(reference, await anyio.to_thread.run_sync(read))
            case Scheme.ENV:
                return SecretSource(text=self._variable(reference, rest), form=SecretFormat.VARIABLE)
            case Scheme.VAULT:
                if self._vault is None:
                    raise CredentialError("vault:…", "no Vault is configured; set vault.address")
                return await self._vault.read(reference, rest)
            case _ as never:
                assert_never(never)

    def _trimmed(self, reference: str, text: str) -> SecretSource:
        """Return the source for the text of a file, and log what was around the secret once, until it is removed."""
        source = forms.trimmed(text)
        if not source.removed:
            self._warned.discard(reference)
        elif reference not in self._warned:
            self._warned.add(reference)
            _log.warning("credential.trimmed", reference=reference, ignored=source.removed)
        return source

    def _variable(self, reference: str, name: str) -> str:
        prefix = self._places.env_prefix
        if not name.startswith(prefix):
            raise CredentialError(reference, f"the name must start with {prefix} (credentials.env_prefix)")
        value = self._environ.get(name)
        if value is None:
            raise CredentialError(reference, "the variable is not set in the environment of this process")
        return value
