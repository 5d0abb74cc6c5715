"""The cause that an SQLSTATE shows: the data that were sent, a transient conflict, or the server."""

from __future__ import annotations

import asyncpg
import pytest

from farrier import errors
from farrier.io.connections import refusals
from farrier.io.connections.session import Trouble, Unsendable, classify

TROUBLES = [
    (asyncpg.StatementTooComplexError, Trouble.DATA),  # JSON that is nested too deeply for the server
    (asyncpg.ProgramLimitExceededError, Trouble.DATA),  # a key that is too long for an index
    (asyncpg.FeatureNotSupportedError, Trouble.DATA),
    (asyncpg.DependentObjectsStillExistError, Trouble.DATA),
    (asyncpg.CardinalityViolationError, Trouble.DATA),
    (asyncpg.InFailedSQLTransactionError, Trouble.DATA),
    (asyncpg.NumericValueOutOfRangeError, Trouble.DATA),
    (asyncpg.UniqueViolationError, Trouble.DATA),
    (asyncpg.UndefinedTableError, Trouble.DATA),
    (asyncpg.RaiseError, Trouble.DATA),
    (asyncpg.DeadlockDetectedError, Trouble.MOMENT),
    (asyncpg.LockNotAvailableError, Trouble.MOMENT),
    (asyncpg.ReadOnlySQLTransactionError, Trouble.GONE),  # the primary is another server now
    (asyncpg.IdleInTransactionSessionTimeoutError, Trouble.GONE),
    (asyncpg.DiskFullError, Trouble.GONE),
    (asyncpg.AdminShutdownError, Trouble.GONE),
    (asyncpg.QueryCanceledError, Trouble.GONE),
    (asyncpg.InternalServerError, Trouble.GONE),
]


@pytest.mark.parametrize(("refusal", "trouble"), TROUBLES)
def test_an_sqlstate_is_classified_as_fault_of_the_data_transient_or_fault_of_the_server(
    refusal: type[asyncpg.PostgresError], trouble: Trouble
) -> None:
    assert classify(refusal("…")) is trouble


def test_an_argument_that_the_driver_cannot_send_is_a_fault_of_the_data() -> None:
    assert classify(Unsendable("…")) is Trouble.DATA


def test_an_error_of_a_reachable_server_is_reported_with_its_text() -> None:
    cancelled = asyncpg.QueryCanceledError("canceling statement due to statement timeout")
    for refusal in (cancelled, asyncpg.DiskFullError("No space left on device")):
        with pytest.raises(errors.RefusedByModel, match=str(refusal)), refusals.translated():
            raise refusal
    with pytest.raises(errors.DatabaseUnreachable), refusals.translated():
        raise asyncpg.AdminShutdownError("terminating connection due to administrator command")


def test_a_client_ended_to_resolve_a_deadlock_is_advised_to_retry() -> None:
    refused = refusals.as_refusal(asyncpg.DeadlockDetectedError("deadlock detected"))
    assert str(refused) == "deadlock detected (nothing was written; send the request again)"
