"""Lists the possible results of requests to services, which are label values of metrics."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from farrier.services.http.failures import Failures
from farrier.services.vault.client import FAILURES, VaultOperation, VaultResult

NO_FAILURE = ("ok", "cancelled")
"""The results of requests without a failure: a response arrived, or the run that sent the request ended."""


def of_http(failures: Failures[Any], operations: Iterable[StrEnum]) -> dict[str, tuple[str, ...]]:
    """Return the possible results of each operation of an HTTP service."""
    return {str(each): (*NO_FAILURE, *map(str, failures.possible(each))) for each in operations}


def of_vault() -> dict[str, tuple[str, ...]]:
    """Return the possible results of each operation of Vault."""
    vault = of_http(FAILURES, VaultOperation)
    vault[VaultOperation.READ] += (str(VaultResult.MISSING),)
    return vault
