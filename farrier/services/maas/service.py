"""The parameters of MAAS: the settings of a region, its API key, limits, and the table of failures.

Error texts of the region are quoted, because an operator needs them. No log or error text contains a part of the key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final
from uuid import uuid4

import msgspec
from typing_extensions import override

from farrier.model.maas.reading import MaasError
from farrier.model.maas.reading import MaasFailure as F
from farrier.services.http.client import Service
from farrier.services.http.failures import FailureRule, Failures, redirect
from farrier.services.http.messages import HttpRequest, HttpResponse
from farrier.services.http.quoting import quoted
from farrier.services.maas.requests import MaasOperation

# A region has four workers with four requests each for all clients; more requests would only queue in the region.
CONCURRENCY = 4
# While a region restarts, it is unavailable for longer than a caller should wait, so more attempts would not help.
ATTEMPTS = 3
# farrier notices a rotated key after this time, or after the first refused request.
KEY_KEPT = timedelta(seconds=1)
# A list of fifty machines, the most that one request reads, has 2 MB; a thousand events have half a megabyte.
LARGEST_BODY_BYTES = 8 * 1024 * 1024

# Failures of MAAS at a BMC: provisioningserver/drivers/power/__init__.py:256, maasserver/models/node.py:6343. The last
# alternative is the only text for an erasure that could not start: MAAS refuses the return to the former status
# (:5912).
_POWER: Final = re.compile(
    r"\bBMC\b|Failed to complete power action|Missing (or invalid power setting|power tool)"
    r"|^Invalid transition: Disk erasing -> (?!Entering rescue mode)"
)
# A lack of addresses: maasserver/models/subnet.py:641, models/node.py:4920 and 4944, api/nodes.py:1061.
_EXHAUSTED: Final = re.compile(
    "No more IPs available|Failed to allocate the required AUTO IP|IP address checks failed"
    "|Unable to allocate static IP"
)
_FAILED: Final = range(500, 1000)
_START: Final = "MAAS returned HTTP {status}"

_NO_KEY: Final = f"{_START}: it received no API key, because a proxy removes the Authorization header"

# No rule for 401 quotes the response, because the response to a wrong secret contains the right secret
# (piston3/oauth.py:509).
RULES: Final = (
    # The responses to a request without a key: the first is for a list, the second for any other path
    # (piston3/utils.py:44). The third is for a header of which a proxy changed the scheme (maasserver/api/auth.py:76).
    FailureRule(
        failure=F.AUTH,
        statuses={400},
        text=re.compile("^Unrecognised signature|Bad Request: Parameter not found: oauth_"),
        detail=_NO_KEY,
    ),
    FailureRule(failure=F.AUTH, statuses={401}, text=re.compile("^Forbidden$"), detail=_NO_KEY),
    FailureRule(
        failure=F.CLOCK_SKEW,
        statuses={401},
        text=re.compile("timestamp", re.IGNORECASE),
        detail=f"{_START}: the clocks of this machine and the region differ by more than five minutes; correct them",
    ),
    FailureRule(failure=F.AUTH, statuses={401}, detail=f"{_START}: it refuses the API key"),
    # The machine changed between farrier's read and its request.
    FailureRule(
        failure=F.CONFLICT,
        statuses={400},
        operations={MaasOperation.COMMISSION, MaasOperation.TEST},
        text=re.compile("current state"),
    ),
    FailureRule(failure=F.INVALID, statuses={400}, page=False),
    FailureRule(failure=F.FORBIDDEN, statuses={403}, page=False),
    FailureRule(failure=F.PROTOCOL, statuses={404}, text=re.compile("^Unknown API endpoint")),
    FailureRule(failure=F.ABSENT, statuses={404}, text=re.compile(r"No (Machine|Node) matches the given query")),
    # maasserver/exceptions.py:164: StaticIPAddressUnavailable is status 404.
    FailureRule(failure=F.ADDRESS_TAKEN, statuses={404}, text=re.compile("^IP address is already in use")),
    # Any other text is about a missing link or disk; the machine itself may exist.
    FailureRule(failure=F.CONFLICT, statuses={404}, page=False),
    FailureRule(failure=F.BUSY, statuses={429}),
    # The region returns a conflict of its database as a page, and a conflict with a machine's state as text.
    FailureRule(failure=F.BUSY, statuses={409, 503}, stay=True),
    FailureRule(failure=F.BUSY, statuses={409, 503}, page=True),
    # MAAS up to 3.5: provisioningserver/rpc/power.py:269, with the status of maasserver/clusterrpc/power.py:73. The
    # action that is in progress ends by itself.
    FailureRule(failure=F.CONFLICT, statuses={503}, text=re.compile("another action is already in progress")),
    FailureRule(
        failure=F.POWER,
        statuses={409, *_FAILED},
        text=_POWER,
        detail=f"{_START}: it could not switch the machine through its BMC{{said}}",
    ),
    FailureRule(failure=F.CONFLICT, statuses={409}),
    FailureRule(failure=F.CAPACITY, statuses={503}, text=_EXHAUSTED),
    FailureRule(failure=F.UPSTREAM, statuses=_FAILED),
    redirect(F.PROTOCOL, "the URL must be that of the region itself"),
    FailureRule(failure=F.PROTOCOL),
)


class _MaasFailures(Failures[MaasError], frozen=True, kw_only=True):
    @override
    def of_answer(self, request: HttpRequest, answer: HttpResponse, *, secrets: Iterable[str]) -> MaasError:
        error = super().of_answer(request, answer, secrets=secrets)
        if error.failure is F.INVALID:
            error.fields = _fields(answer, tuple(secrets))
        return error


def _fields(answer: HttpResponse, secrets: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the errors of a form by field; empty if the refusal is a text."""
    try:
        form = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(form, Mapping):
        return {}
    return {
        quoted(str(name).encode(), secrets): tuple(
            quoted(str(one).encode(), secrets) for one in (words if isinstance(words, list) else [words])
        )
        for name, words in form.items()
    }


FAILURES: Final = _MaasFailures(
    service="MAAS",
    error=MaasError,
    failure=F,
    rules=RULES,
    unauthorized=F.AUTH,
    credential="the API key",
    busy=F.BUSY,
    retried=frozenset({F.BUSY, F.UPSTREAM, F.UNREACHABLE}),
)

MAAS: Final = Service(
    failures=FAILURES,
    concurrency=CONCURRENCY,
    largest_body_bytes=LARGEST_BODY_BYTES,
    attempts=ATTEMPTS,
    longest_pause=timedelta(seconds=10),
    credential_kept=KEY_KEPT,
)


class MaasSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a region: those of `MaasSite` that its client needs, and time limits."""

    url: str
    key: str
    ca_file: str = ""
    agent_name: str = "farrier"
    # Each deployment occupies a slot of the region for up to minutes, while MAAS probes addresses and queries power.
    deploys_at_once: int = 2
    # Fifty machines take a second, and a read may be repeated.
    read_timeout: timedelta = timedelta(seconds=15)
    # The region switches power and makes remote calls within the request. If this takes longer, farrier reads the
    # result afterwards. A step that reads and changes must end within a minute.
    change_timeout: timedelta = timedelta(seconds=45)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """The API key of one user, which has three parts of ASCII letters and digits."""

    consumer: str
    token: str
    secret: str

    @override
    def __repr__(self) -> str:
        return "ApiKey(***)"

    @property
    def secrets(self) -> tuple[str, ...]:
        return (self.secret, self.token, self.consumer)

    def headers(self, now: float) -> Mapping[str, str]:
        """Return the header of one attempt: OAuth 1.0 with PLAINTEXT and a new nonce, because the region accepts each
        only once. `now` is the Unix time; the region refuses a header that is five minutes old."""
        # The parts are letters and digits, so nothing is escaped. The consumer's secret, which precedes the ampersand,
        # is empty.
        return {
            "Authorization": (
                f'OAuth oauth_nonce="{uuid4().hex}", oauth_timestamp="{int(now)}", oauth_version="1.0", '
                f'oauth_signature_method="PLAINTEXT", oauth_consumer_key="{self.consumer}", '
                f'oauth_token="{self.token}", oauth_signature="%26{self.secret}"'
            )
        }


def api_key(text: str) -> ApiKey:
    """Parse a key in the form that MAAS prints. Raises `MaasError` `auth`, whose text does not contain the input."""
    parts = text.strip().split(":")
    if len(parts) != 3 or not all(part and part.isascii() and part.isalnum() for part in parts):
        raise MaasError(F.AUTH, "the API key must consist of three parts of letters and digits, separated by colons")
    consumer, token, secret = parts
    return ApiKey(consumer=consumer, token=token, secret=secret)
