"""Every response, and the lack of one, has a class; a change that may have been made is never reported as not made."""

from __future__ import annotations

import ssl
from datetime import timedelta

import httpx
import pytest

from farrier.model.maas.reading import MaasFailure
from farrier.services.http.messages import HttpRequest, HttpResponse
from farrier.services.http.quoting import scrubbed
from farrier.services.maas.requests import MaasOperation
from farrier.services.maas.service import FAILURES

READ = HttpRequest(operation=MaasOperation.MACHINE, path="machines/abc123/")
CHANGE = HttpRequest(
    operation=MaasOperation.RELEASE, method="POST", path="machines/abc123/", query=(("op", "release"),)
)
TEXT, HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"  # MAAS sends the text of a refused key as HTML
PAGE = b"<html><head><title>Oops</title></head></html>"

# status, body, content type, Retry-After → class
TABLE = [
    (400, b'{"hostname": ["Node with this Hostname already exists."]}', "application/json", "", "invalid"),
    (400, b"Failed to render preseed: nothing", TEXT, "", "invalid"),
    (400, b"Unrecognised signature: method=GET op=None", TEXT, "", "auth"),
    (400, b"'Bad Request: Parameter not found: oauth_consumer_key'", TEXT, "", "auth"),
    (400, PAGE, "text/html", "", "protocol"),
    (401, b"Forbidden", "text/plain", "", "auth"),
    (401, b"Authorization Error: Invalid API key.", HTML, "", "auth"),
    (401, b"Authorization Error: 'Nonce already used: n1'", HTML, "", "auth"),
    (401, b"Authorization Error: 'Expired timestamp: given 1 and now 2 has a greater'", HTML, "", "clock_skew"),
    (401, PAGE + b"timestamp", HTML, "", "auth"),
    (403, b"", TEXT, "", "forbidden"),
    (403, b"This method is reserved for admin users.", TEXT, "", "forbidden"),
    (403, PAGE, "text/html", "", "protocol"),
    (404, b"No Machine matches the given query.", TEXT, "", "absent"),
    (404, b"No BlockDevice matches the given query.", TEXT, "", "conflict"),
    (404, b"IP address is already in use.", TEXT, "", "address_taken"),
    (404, b"Unknown API endpoint: /MAAS/api/2.0/machines.", TEXT, "", "protocol"),
    # A 404 of a proxy that has lost the region must not make machines look deleted.
    (404, b"<html>No Machine matches the given query.</html>", "text/html", "", "protocol"),
    (405, b"", TEXT, "", "protocol"),
    (409, b"Can't deploy a machine that is in the 'Deploying' state", TEXT, "", "conflict"),
    (409, PAGE, "text/html", "5", "busy"),
    (409, b"", "", "5", "busy"),
    (410, b"The 1.0 API is no longer available.", TEXT, "", "protocol"),
    (429, b"", TEXT, "", "busy"),
    (301, b"", "", "", "protocol"),
    (500, b"Failed to connect to BMC: no route", TEXT, "", "power"),
    (500, b"Could not contact node's BMC: timed out", TEXT, "", "power"),
    (500, b"Error determining BMC task queue for machine abc123", TEXT, "", "power"),
    (500, b"Failed to complete power action: Redfish request failed", TEXT, "", "power"),
    (503, b"No BMC is defined.  Cannot power control node.", TEXT, "", "power"),
    (409, b"Invalid transition: Disk erasing -> Deployed.", TEXT, "", "power"),
    (409, b"Invalid transition: Disk erasing -> Entering rescue mode.", TEXT, "", "conflict"),
    (500, b"list index out of range", TEXT, "", "upstream"),
    (502, PAGE, "text/html", "", "upstream"),
    (503, b"Unable to connect to any rack controller", TEXT, "10", "busy"),
    (503, b"No more IPs available in subnet", TEXT, "", "capacity"),
    (503, b"Failed to allocate the required AUTO IP addresses", TEXT, "", "capacity"),
    (
        503,
        b"Unable to change power state: another action is already in progress for that node.",
        TEXT,
        "",
        "conflict",
    ),
    (503, b"The pod is out of memory", TEXT, "", "upstream"),
    (503, PAGE, "text/html", "", "busy"),
    (504, b"", "", "", "upstream"),
    (599, b"", "", "", "upstream"),
    (418, b"", "", "", "protocol"),
]


@pytest.mark.parametrize(("status", "body", "kind", "retry", "expected"), TABLE)
def test_every_answer_has_its_class(status: int, body: bytes, kind: str, retry: str, expected: str) -> None:
    answer = HttpResponse(status=status, body=body, content_type=kind, retry_after=retry)
    for request in (READ, CHANGE):
        error = FAILURES.of_answer(request, answer, secrets=())
        assert error.failure == expected
        assert error.operation == request.operation
        assert error.ambiguous == (request is CHANGE and status >= 500)


@pytest.mark.parametrize("status", [400, 401])
def test_a_missing_key_is_distinguished_from_a_refused_key(status: int) -> None:
    body = {400: b"Unrecognised signature: method=GET op=None", 401: b"Forbidden"}[status]
    error = FAILURES.of_answer(READ, HttpResponse(status=status, body=body, content_type="text/plain"), secrets=())
    assert error.failure is MaasFailure.AUTH and "received no API key" in error.detail
    refused = FAILURES.of_answer(
        READ, HttpResponse(status=401, body=b"Authorization Error: Invalid API key."), secrets=()
    )
    assert "refuses the API key" in refused.detail


@pytest.mark.parametrize(
    ("body", "kind", "is_page"),
    [
        (PAGE, TEXT, True),
        (b"\xef\xbb\xbf\n<!DOCTYPE html>", "", True),
        (b"<h1>Oops</h1>", HTML, True),
        (b"<h1>Oops</h1>", TEXT, False),
        (b"", HTML, True),
        (b"Authorization Error: Invalid API key.", HTML, False),
        (b'{"a": 1}', "application/json", False),
    ],
)
def test_a_web_page_is_recognised_by_its_markup_and_not_only_by_its_content_type(
    body: bytes, kind: str, *, is_page: bool
) -> None:
    assert HttpResponse(status=401, body=body, content_type=kind).is_page is is_page


def test_errors_of_a_form_are_kept_by_field() -> None:
    body = b'{"mac_addresses": ["MAC address is already in use", "x"], "network": "none"}'
    error = FAILURES.of_answer(CHANGE, HttpResponse(status=400, body=body), secrets=())
    assert error.fields == {"mac_addresses": ("MAC address is already in use", "x"), "network": ("none",)}


@pytest.mark.parametrize(("text", "seconds"), [("5", 5), ("0", 0), ("999999999999", 300), ("Sat, 21 Nov 2026", 300)])
def test_retry_after_of_the_region_is_limited(text: str, seconds: int) -> None:
    error = FAILURES.of_answer(READ, HttpResponse(status=503, body=b"", retry_after=text), secrets=())
    assert error.retry_after == (timedelta(seconds=seconds) or None)


def caused(outer: Exception, cause: Exception) -> Exception:
    outer.__cause__ = cause
    return outer


CERTIFICATE = ssl.SSLCertVerificationError("self-signed")
CERTIFICATE.verify_message = "self-signed certificate"


@pytest.mark.parametrize(
    ("error", "expected", "arrived"),
    [
        (caused(httpx.ConnectError("x"), CERTIFICATE), MaasFailure.TLS, False),
        (caused(httpx.ConnectError("x"), ssl.SSLError(1, "wrong version")), MaasFailure.TLS, False),
        (caused(httpx.ConnectError("x"), ssl.SSLEOFError(8, "eof")), MaasFailure.UNREACHABLE, False),
        (httpx.ConnectError("refused"), MaasFailure.UNREACHABLE, False),
        (httpx.ConnectTimeout("x"), MaasFailure.TIMEOUT, False),
        (TimeoutError(), MaasFailure.TIMEOUT, True),
        (httpx.ReadError("reset"), MaasFailure.UNREACHABLE, True),
        (httpx.WriteError("reset"), MaasFailure.UNREACHABLE, True),
        (httpx.RemoteProtocolError("disconnected"), MaasFailure.UNREACHABLE, True),
        (httpx.DecodingError("x"), MaasFailure.PROTOCOL, True),
        (OSError("x"), MaasFailure.UNREACHABLE, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_a_change_without_a_response_is_ambiguous_unless_it_was_never_sent(
    error: Exception, expected: MaasFailure, *, arrived: bool
) -> None:
    change = FAILURES.of_exception(CHANGE, error, within=timedelta(seconds=1))
    assert (change.failure, change.ambiguous) == (expected, arrived)
    assert not FAILURES.of_exception(READ, error, within=timedelta(seconds=1)).ambiguous


def test_a_secret_is_removed_from_a_text_in_every_encoding() -> None:
    secret = "p&w d\"'%é"
    body = f"plain {secret} quoted p%26w%20d%22%27%25%C3%A9 plus p%26w+d%22%27%25%C3%A9".encode()
    assert scrubbed(body.decode(), [secret]) == "plain *** quoted *** plus ***"
    assert (
        scrubbed("""json p&w d\\"'%\\u00e9 and p&w d\\"'%é path a/b%3F""", [secret, "a/b?"])
        == "json *** and *** path ***"
    )
    error = FAILURES.of_answer(CHANGE, HttpResponse(status=500, body=body), secrets=[secret])
    assert "w" not in error.detail.partition(":")[2]


def test_a_secret_is_removed_before_a_long_text_is_cut() -> None:
    body = b"x" * 297 + b"topsecret"
    assert "tops" not in FAILURES.of_answer(CHANGE, HttpResponse(status=500, body=body), secrets=["topsecret"]).detail
