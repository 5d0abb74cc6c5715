"""Shared by the suites of the BMC client: a CA, and our own fake BMC, which a test scripts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from farrier.sim.certificates import Authority
from tests.support.bmc import FakeBmc, fake_bmc


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority("test CA", now=datetime.now(UTC))


@pytest.fixture
async def bmc(tmp_path: Path, authority: Authority) -> AsyncIterator[FakeBmc]:
    async with fake_bmc(tmp_path, authority) as running:
        yield running
