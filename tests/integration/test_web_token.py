"""Responses to intents over HTTP when the token's file or credential cannot be read."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from farrier.errors import CredentialError
from farrier.web.server.backend import Backend
from tests.integration.test_web import WITH_TOKEN, backend, client_of, open_site

__all__ = ["backend"]


@pytest.mark.parametrize(("temporary", "status"), [(True, 503), (False, 500)], ids=["for now", "until it is mended"])
@pytest.mark.parametrize("path", ["intents", "resource-intents"])
async def test_an_unreadable_token_is_reported_in_json_without_its_location(
    backend: Backend, path: str, temporary: bool, status: int
) -> None:
    async def unreadable() -> str:
        raise CredentialError("file:/secret/place", "no such file", temporary=temporary)

    async with client_of(open_site(replace(backend, token=unreadable))) as client:
        answer = await client.post(f"/api/v1/{path}", json={}, headers=WITH_TOKEN)
    assert answer.status_code == status
    assert "token" in answer.json()["detail"]
    assert "secret/place" not in answer.text
