"""Shared by the tests of nodes: a running site."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from farrier.model.kinds.measures import Sample
from farrier.wiring.vocabulary import vocabulary
from tests.support import pg
from tests.support import site as sites


@pytest.fixture
async def site(db: pg.Database) -> AsyncIterator[sites.Site]:
    """An empty site in this test's database."""
    async with sites.opened(db) as opened:
        yield opened
        assert not undeclared(opened.ledger.samples), "a failure that has no series: see model/node/failures.py"


def undeclared(samples: Iterable[Sample]) -> set[tuple[str, ...]]:
    """Failures that were counted, and that the metric drops because it does not declare them."""
    (metric,) = vocabulary().kinds["node"].metrics
    return {tuple(sample.labels[name] for name in metric.definition.labels) for sample in samples} - set(metric.series)
