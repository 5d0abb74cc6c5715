"""Requests that schemathesis makes from the OpenAPI document: the server accepts and returns what it describes."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from farrier.web.server.serving import serving
from tests.support import pg
from tests.support.site import opened
from tests.support.web import TOKEN, backend_on, open_site

OPTIONS = (
    "--no-color",
    "--phases=coverage,fuzzing",
    "--max-examples=3",
    "--seed=1",
    "--generation-database=none",
    "--generation-allow-x00=false",
    "--no-shrink",
    "--continue-on-failure",
    "--warnings=off",
    # This response does not end; test_web_feed tests it.
    "--exclude-path=/history/stream",
    f"--header=Authorization: Bearer {TOKEN}",
    # Invented names and times are refused with 400 or 404, and a schema cannot describe which names exist.
    "--exclude-checks=positive_data_acceptance",
)

# A list that is too long may also be too large a body.
CONFIG = """
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""


@pytest.fixture
async def url(db: pg.Database) -> AsyncIterator[str]:
    """A server with a node and a loop that answers."""
    async with opened(db) as at_work, db.pool(size=3) as connections:
        await at_work.register("gpu-1")
        site = open_site(backend_on(connections, db.dsn))
        async with serving(site.app, host="127.0.0.1", port=0) as url:
            yield url


@pytest.mark.full
@pytest.mark.timeout(600)
async def test_generated_requests_get_responses_as_documented(url: str, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIG)
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "run",
        f"{url}/api/v1/openapi.json",
        f"--url={url}/api/v1",
        *OPTIONS,
    ]
    done = await anyio.run_process(command, check=False, cwd=tmp_path)  # it keeps a cache in its directory
    assert done.returncode == 0, done.stdout.decode()
