"""Shared by the tests of Vault secrets: a fake Vault with a secret in it, and a store that reads it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from farrier.config import CredentialsConfig, VaultConfig
from farrier.errors import CredentialError
from farrier.services.credentials.resolver import Credentials, open_credentials
from farrier.sim.certificates import Authority
from tests.support.clock import HandClock
from tests.support.observed import Observed
from tests.support.vault import TOKEN, FakeVault, fake_vault
from tests.support.vault_recorded import PASSWORD, USERNAME

PATH = "farrier/bmc/gpu-1"
REFERENCE = f"vault:{PATH}"
URL_PATH = f"/v1/secret/data/{PATH}"
KEEP = timedelta(seconds=30)


class Client:
    """The fake's client: `connect` opens a store, which uses this clock and reports its requests here."""

    def __init__(self, server: FakeVault, token_file: Path) -> None:
        self.server = server
        self.clock = HandClock()
        self.observed = Observed("vault")
        self._token_file = token_file

    def renew(self, token: str | None) -> None:
        """Write another token to the file from which the client reads it; None: remove the file."""
        if token is None:
            self._token_file.unlink()
        else:
            self._token_file.write_text(f"{token}\n")

    def connect(self, **settings: Any) -> AbstractAsyncContextManager[Credentials]:
        """A store over the fake, with these settings of Vault."""
        usual = VaultConfig(
            address=self.server.address,
            token=f"file:{self._token_file}",
            ca_file=str(self.server.ca_file),
            timeout=timedelta(seconds=10),
            keep=KEEP,
        )
        return open_credentials(
            CredentialsConfig(file_roots=(str(self._token_file.parent),)),
            msgspec.structs.replace(usual, **settings),
            clock=self.clock,
            observer=self.observed,
        )


@asynccontextmanager
async def client_of(directory: Path, authority: Authority) -> AsyncIterator[Client]:
    """A client of a running fake, in which the secret at `PATH` has three versions."""
    token_file = directory / "vault-token"
    token_file.write_text(TOKEN)
    async with fake_vault(directory, authority) as server:
        for password in ("older", "old", PASSWORD):
            server.put(PATH, username=USERNAME, password=password, note="rack 4")
        yield Client(server, token_file)


async def refusal(store: Credentials, reference: str = REFERENCE) -> CredentialError:
    """The error that resolving the reference raises. Asserts that it contains no secret, token or request."""
    with pytest.raises(CredentialError) as refused:
        await store.resolve(reference)
    error = refused.value
    assert error.__suppress_context__ or error.__context__ is None, "a traceback would show what was sent"
    assert error.reference == reference
    assert not any(secret in f"{error!r} {error}" for secret in (PASSWORD, "s3kr1t", TOKEN))
    return error
