"""The base class of the errors of MAAS, UFM and Vault. Package `farrier.services` raises these errors, and handlers
catch them."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Generic, Self, TypeVar

from farrier.errors import ServiceError

_Failure = TypeVar("_Failure", bound=StrEnum)


class RequestError(ServiceError, Generic[_Failure]):
    """A request to a service failed. `detail` contains no secrets.

    `ambiguous` is set if the change may have been made, so that only a read can show the result; it is never set for a
    read. `retry_after` is the time during which a retry is useless, or None if the service states no such time.
    """

    def __init__(
        self,
        failure: _Failure,
        detail: str,
        *,
        operation: str = "call",
        ambiguous: bool = False,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(service=self.label, operation=operation, detail=detail)
        self.failure = failure
        self.ambiguous = ambiguous
        self.retry_after = retry_after

    def of_another(self, *, operation: str | None = None, retry_after: timedelta | None = None) -> Self:
        """Return the same failure for another request that was not sent."""
        return type(self)(self.failure, self.detail, operation=operation or self.operation, retry_after=retry_after)
