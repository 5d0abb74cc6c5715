"""The secret of `http.bearer_token`, which the web application reads for each request with another token."""

from __future__ import annotations

import pytest

from farrier import config as settings
from farrier.errors import CredentialError
from farrier.metrics.sink import PrometheusSink
from farrier.wiring import storage
from farrier.wiring.vocabulary import vocabulary
from tests.support import pg


async def the_token(db: pg.Database, monkeypatch: pytest.MonkeyPatch, secret: str) -> str:
    """Read the token as the web application does."""
    monkeypatch.setenv("FARRIER_SECRET_API", secret)
    config = settings.Config(
        database=settings.DatabaseConfig(dsn=db.dsn), http=settings.HttpConfig(bearer_token="env:FARRIER_SECRET_API")
    )
    async with (
        storage.database(config.database) as database,
        storage.backend(config, database, observer=PrometheusSink(vocabulary())) as backend,
    ):
        assert backend.token is not None
        return await backend.token()


async def test_a_token_that_a_client_could_guess_is_refused_without_showing_it(
    db: pg.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CredentialError, match="expected a token of at least 16 characters") as refused:
        await the_token(db, monkeypatch, "t0ken-of-15-cha")
    assert "t0ken" not in str(refused.value)


async def test_a_token_of_sixteen_characters_is_used(db: pg.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await the_token(db, monkeypatch, "t0ken-of-16-char") == "t0ken-of-16-char"
