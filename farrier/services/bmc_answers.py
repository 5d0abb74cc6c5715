"""Pure functions that interpret responses of a BMC: a resource, a new session, or a refusal.

`bmc_exchange` calls these functions for each response. A refusal becomes an error with a class and a text. The text has
the path and the status, and never quotes a body.
"""

from __future__ import annotations

from datetime import timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeAlias

from redfish import aio as redfish
from yarl import URL

from farrier.model.bmc import BmcError, BmcFailure
from farrier.services import bmc_failure, bmc_resources
from farrier.services.bmc_resources import Resource

Response: TypeAlias = redfish.AsyncRestResponse

LONGEST_STAY = timedelta(minutes=15)
"""The longest retry_after that farrier accepts from a BMC: the duration of a firmware update. Some BMCs require a wait
of a day, although they are ready after a minute."""

_NO_FREE_SESSION = ("SessionLimitExceeded", "RAC0218")
"""Messages of a BMC that has no free session: the standard's, and that of Dell's iDRACs."""


class Answered(BmcError):
    """The BMC responded with a status that is no success."""

    def __init__(self, status: int, failure: BmcFailure, detail: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(failure, detail, retry_after=retry_after)
        self.status = status


def accepted(path: str, response: Response) -> None:
    """Check that the response is a success. Raises `Answered` for any other status."""
    failure = bmc_failure.of_status(response.status)
    if failure is None:
        return
    if any(message in response.text for message in _NO_FREE_SESSION):
        detail = f"{path}: the BMC has no free session; end sessions there, or use basic authentication"
        raise Answered(response.status, BmcFailure.UNREACHABLE, detail, retry_after=_retry_after(response))
    # An iLO refuses an action in this way, also for a short time after a change of power.
    if response.status == HTTPStatus.BAD_REQUEST and "InvalidOperationForSystemState" in response.text:
        detail = f"{_status_text(path, response)}: the BMC refuses this action in the machine's present state"
        raise Answered(response.status, BmcFailure.UNREACHABLE, detail, retry_after=_retry_after(response))
    raise Answered(response.status, failure, _status_text(path, response), retry_after=_retry_after(response))


def resource(path: str, response: Response) -> Resource:
    """Return the JSON object in a successful response. Raises `BmcError` for any other status or body."""
    accepted(path, response)
    body = response.dict
    if not isinstance(body, dict):
        raise BmcError(BmcFailure.PROTOCOL, f"{path} is not a JSON object")
    return body


def opened(path: str, response: Response) -> tuple[str, str | None, str | None]:
    """Return the token, the location and the creation time of a new session. The time is by the BMC's clock."""
    body = resource(path, response)
    token = response.getheader("X-Auth-Token")
    if not isinstance(token, str) or not token.strip():
        raise BmcError(BmcFailure.PROTOCOL, f"{path} opened a session, but returned no token")
    # Some BMCs return a URL with another host or with http, so farrier uses only its path.
    try:
        place = URL(response.getheader("Location") or "").path
    except ValueError:
        place = ""
    location = bmc_resources.link({"@odata.id": place}) or bmc_resources.link(body)
    return token, location, bmc_resources.text(body.get("CreatedTime"))


def _status_text(path: str, response: Response) -> str:
    text = f"{path} returned HTTP {response.status}"
    if 300 <= response.status < 400:
        return f"{text}, a redirect; farrier does not follow redirects"
    if response.status == HTTPStatus.FORBIDDEN and "PasswordChangeRequired" in response.text:
        return f"{text}: the BMC requires a new password for this user first"
    return text


def _retry_after(response: Response) -> timedelta | None:
    """Return the wait that `Retry-After` requires. The header states seconds, or a date by the BMC's clock."""
    wanted = response.getheader("Retry-After") or ""
    try:
        if wanted.isdecimal():
            stay = timedelta(seconds=int(wanted))
        else:
            stay = parsedate_to_datetime(wanted) - parsedate_to_datetime(response.getheader("Date") or "")
    except (ValueError, TypeError, OverflowError):
        return None
    return min(stay, LONGEST_STAY) if stay > timedelta(0) else None
