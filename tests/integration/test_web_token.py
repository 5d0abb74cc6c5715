"""Responses to intents over HTTP when the token's file or credential cannot be read."""

from __future__ import annotations

import pytest

from farrier.errors import CredentialError
from farrier.io.api import PostgresRequests
from farrier.io.queries import PostgresQueries
from farrier.model.limits import Limits
from farrier.web.backend import Backend
from tests.integration.test_web import WITH_TOKEN, client_of, closed_site
from tests.support import pg


@pytest.mark.parametrize(("temporary", "status"), [(True, 503), (False, 500)], ids=["for now", "until it is mended"])
@pytest.mark.parametrize("path", ["intents", "resource-intents"])
async def test_an_unreadable_token_is_reported_in_json_without_its_location(
    db: pg.Database, path: str, temporary: bool, status: int
) -> None:
    async def unreadable() -> str:
        raise CredentialError("file:/secret/place", "no such file", temporary=temporary)

    site = closed_site()
    async with db.pool(size=1) as connections, client_of(site) as client:
        requests = PostgresRequests(connections, db.dsn)
        site.open(Backend(PostgresQueries(connections), requests, Limits(), unreadable))
        answer = await client.post(f"/api/v1/{path}", json={}, headers=WITH_TOKEN)
    assert answer.status_code == status
    assert "token" in answer.json()["detail"]
    assert "secret/place" not in answer.text
