"""Exceptions and statuses become failure classes: each has one, certificate errors come first, no secret is kept."""

from __future__ import annotations

import errno
import socket
import ssl
from datetime import timedelta

import aiohttp
import pytest
from redfish import aio as redfish

from farrier.errors import CredentialError
from farrier.model.machine.bmc import BmcError, BmcFailure
from farrier.services.bmc import failure as bmc_failure


def subclasses(kind: type[Exception]) -> set[type[Exception]]:
    return {kind}.union(*(subclasses(below) for below in kind.__subclasses__()))


def blank(kind: type[Exception]) -> Exception:
    """An instance without its constructor, whose arguments differ from class to class."""
    error = kind.__new__(kind)
    if isinstance(error, aiohttp.ServerFingerprintMismatch):
        error.got = b"\1" * 32
    return error


def caused(error: Exception, *causes: Exception) -> Exception:
    """`error`, raised from the first of `causes`, which was raised from the second, and so on."""
    outer = error
    for cause in causes:
        outer.__cause__ = cause
        outer = cause
    return error


@pytest.mark.parametrize("kind", sorted(subclasses(aiohttp.ClientError) | subclasses(OSError), key=str))
def test_no_error_of_the_network_is_an_internal_failure(kind: type[Exception]) -> None:
    failure, text = bmc_failure.of_exception(caused(redfish.RedfishConnectionError("x"), blank(kind)))
    assert failure is not BmcFailure.INTERNAL
    assert text


@pytest.mark.parametrize(
    "kind",
    [
        redfish.RedfishConnectionError,
        redfish.RedfishTimeoutError,
        redfish.RedfishProtocolError,
        redfish.RedfishInvalidTargetError,
    ],
)
def test_no_error_of_the_redfish_library_is_an_internal_failure(kind: type[Exception]) -> None:
    assert bmc_failure.of_exception(kind("x"))[0] is not BmcFailure.INTERNAL


@pytest.mark.parametrize("kind", [KeyError, AttributeError, ZeroDivisionError, ValueError])
def test_an_unexpected_exception_is_an_internal_failure_without_its_text(kind: type[Exception]) -> None:
    failure, text = bmc_failure.of_exception(kind("s3kr1t"))
    assert failure is BmcFailure.INTERNAL
    assert "s3kr1t" not in text


def test_a_certificate_error_inside_a_connection_error_is_a_tls_failure() -> None:
    inner = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error = caused(redfish.RedfishConnectionError("x"), blank(aiohttp.ClientConnectorCertificateError), inner)
    assert bmc_failure.of_exception(error)[0] is BmcFailure.TLS


@pytest.mark.parametrize("kind", [ssl.SSLEOFError, ssl.SSLZeroReturnError])
def test_a_peer_that_disconnects_during_the_handshake_is_unreachable(kind: type[ssl.SSLError]) -> None:
    error = caused(redfish.RedfishConnectionError("x"), blank(aiohttp.ClientConnectorSSLError), kind(8, "x"))
    assert bmc_failure.of_exception(error)[0] is BmcFailure.UNREACHABLE


@pytest.mark.parametrize(
    ("error", "expected", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "unreachable", "no connection: connection refused"),
        (OSError(errno.EHOSTUNREACH, "x"), "unreachable", "no connection: no route to host"),
        (OSError(errno.ECONNRESET, "x"), "unreachable", "no connection: connection reset by peer"),
        (aiohttp.ServerDisconnectedError(), "unreachable", "the BMC closed the connection"),
        (socket.gaierror(-2, "x"), "unreachable", "the host name does not resolve"),
        (TimeoutError(), "timeout", "no complete response in time"),
        (TimeoutError(errno.ETIMEDOUT, "x"), "timeout", "no complete response in time"),
        (BmcError(BmcFailure.UNSUPPORTED, "as it was"), "unsupported", "as it was"),
        (CredentialError("file:/x", "gone"), "incomplete", "credential file:/x: gone"),
        (CredentialError("vault:x", "sealed", temporary=True), "unreachable", "credential vault:x: sealed"),
    ],
)
def test_the_text_comes_from_the_innermost_cause(error: Exception, expected: str, text: str) -> None:
    """The text has no addresses and ports, because an outcome is stored again whenever its text changes."""
    for raised in (error, caused(redfish.RedfishConnectionError("Redfish request failed"), error)):
        assert bmc_failure.of_exception(raised) == (expected, text)


def test_every_status_but_success_has_a_class() -> None:
    successes = [status for status in range(100, 1000) if bmc_failure.of_status(status) is None]
    assert successes == list(range(200, 300))


@pytest.mark.parametrize("kind", sorted(subclasses(aiohttp.ClientConnectorError), key=str))
def test_a_request_without_a_connection_has_not_arrived(kind: type[Exception]) -> None:
    error = caused(redfish.RedfishConnectionError("x"), blank(kind), OSError(errno.ECONNREFUSED, "x"))
    assert not bmc_failure.may_have_arrived(error)


@pytest.mark.parametrize(
    "error",
    [
        BmcError(BmcFailure.UNREACHABLE, "returned HTTP 503"),
        CredentialError("file:/x", "gone"),
        redfish.RedfishProtocolError("not JSON"),
        redfish.RedfishInvalidTargetError("elsewhere"),
        RecursionError(),
        caused(redfish.RedfishTimeoutError("x"), aiohttp.ConnectionTimeoutError("x")),
        caused(redfish.RedfishConnectionError("x"), blank(aiohttp.ServerFingerprintMismatch)),
    ],
    ids=repr,
)
def test_a_request_that_was_answered_or_never_sent_has_not_arrived(error: Exception) -> None:
    assert not bmc_failure.may_have_arrived(error)


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        redfish.RedfishTimeoutError("x"),
        caused(redfish.RedfishConnectionError("x"), aiohttp.ServerDisconnectedError()),
        caused(redfish.RedfishConnectionError("x"), aiohttp.ClientOSError(errno.ECONNRESET, "x")),
        caused(redfish.RedfishConnectionError("x"), aiohttp.ClientPayloadError("x")),
        ZeroDivisionError(),
    ],
    ids=repr,
)
def test_any_other_request_may_have_arrived(error: Exception) -> None:
    """For an action this is the safe assumption: the client reads the state, and does not send the action again."""
    assert bmc_failure.may_have_arrived(error)


def test_retry_after_is_found_in_the_cause_of_an_error() -> None:
    busy = BmcError(BmcFailure.UNREACHABLE, "busy", retry_after=timedelta(seconds=9))
    assert bmc_failure.retry_after(caused(ValueError(), busy)) == timedelta(seconds=9)
    assert bmc_failure.retry_after(ValueError()) is None
