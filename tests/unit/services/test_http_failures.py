"""Every bad response, and every reason for a missing one, becomes a failure class of the service."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from farrier.services.http.failures import Failures, Reason
from farrier.services.http.messages import HttpRequest, HttpResponse
from farrier.services.maas import requests, service
from farrier.services.ufm import requests as ufm_requests
from farrier.services.ufm import service as ufm_service
from farrier.services.vault import client as vault

SERVICES = pytest.mark.parametrize(
    ("failures", "operations"),
    [
        (service.FAILURES, requests.MaasOperation),
        (ufm_service.FAILURES, ufm_requests.UfmOperation),
        (vault.FAILURES, vault.VaultOperation),
    ],
    ids=["maas", "ufm", "vault"],
)


@SERVICES
@pytest.mark.parametrize("reason", Reason)
def test_each_service_has_a_failure_for_each_reason(
    failures: Failures[Any], operations: type[StrEnum], reason: Reason
) -> None:
    del operations
    assert failures.failure(reason.value).value == reason.value


@SERVICES
@pytest.mark.parametrize("body", [b"", b"text", b"<html>"], ids=["nothing", "text", "page"])
def test_every_http_status_has_a_failure_class(failures: Failures[Any], operations: type[StrEnum], body: bytes) -> None:
    for operation in operations:
        for status in (0, *range(100, 600), 999):
            error = failures.of_answer(
                HttpRequest(operation=operation, path=""), HttpResponse(status=status, body=body), secrets=()
            )
            assert isinstance(error.failure, failures.failure)


def test_the_text_of_a_response_is_quoted_and_a_page_is_only_named() -> None:
    request = HttpRequest(operation=requests.MaasOperation.MACHINE, path="")
    for body, end in (
        (b"", "HTTP 500 without a text"),
        (b"boom", "HTTP 500: boom"),
        (b"<html>", "HTTP 500 with a web page"),
    ):
        assert service.FAILURES.of_answer(request, HttpResponse(status=500, body=body), secrets=()).detail.endswith(end)
