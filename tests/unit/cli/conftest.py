"""Commands set up logging for their whole process, which is the process of the tests: it is restored after each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support import logged


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    with logged.restored():
        yield
