"""What an answer of MAAS that is no success means, and what it means that there is none: total, nothing unclassified.

Used by `maas_transport`; pure. Texts of the region are quoted, short and cleaned, because an operator needs them; pages
of a proxy are not, and no text is passed on before the secrets are taken out. `ambiguous` errs on the safe side: the
caller reads once too often rather than taking a change that was made for one that was not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta

import msgspec

from farrier.model.maas import MaasError, MaasFailure
from farrier.services.answer import Answer
from farrier.services.maas_requests import Request
from farrier.services.no_answer import no_answer
from farrier.services.quoting import quoted, said

_NO_MACHINE = re.compile(r"No (Machine|Node) matches the given query")
# maasserver/exceptions.py:164: 404 is what StaticIPAddressUnavailable answers with.
_ADDRESS_TAKEN = "IP address is already in use"
# What MAAS could not do to a BMC: provisioningserver/drivers/power/__init__.py:256, maasserver/models/node.py:6343.
# The last is all that is said of an erasure that could not start: its way back to the former status is refused (:5912).
_POWER = re.compile(
    r"\bBMC\b|Failed to complete power action|Missing (or invalid power setting|power tool)"
    r"|^Invalid transition: Disk erasing -> (?!Entering rescue mode)"
)
_OLD_TIMESTAMP = re.compile(r"expired timestamp|timestamp", re.IGNORECASE)


def of_answer(request: Request, answer: Answer, *, secrets: Iterable[str]) -> MaasError:
    """The error that an answer other than 2xx is."""
    failure = _class(answer)
    fields = _fields(answer, secrets) if failure is MaasFailure.INVALID else {}
    return MaasError(
        failure,
        _detail(failure, answer, secrets),
        operation=request.operation,
        ambiguous=request.changes and answer.status >= 500,
        retry_after=answer.stay,
        fields=fields,
    )


def _class(answer: Answer) -> MaasFailure:
    text = "" if answer.is_page else answer.body[:4096].decode(errors="replace")
    match answer.status:
        case 400 if text.startswith("Unrecognised signature"):
            return MaasFailure.AUTH  # what a list says to whoever shows no key at all
        case 401:
            return MaasFailure.CLOCK_SKEW if _OLD_TIMESTAMP.search(text) else MaasFailure.AUTH
        case 400 if not answer.is_page:
            return MaasFailure.INVALID
        case 403 if not answer.is_page:
            return MaasFailure.FORBIDDEN
        case 404 if not answer.is_page and not text.startswith("Unknown API endpoint"):
            return _not_found(text)
        case 429:
            return MaasFailure.BUSY
        case status if status == 409 or status >= 500:
            return _not_now(answer, text)
        case _:
            return MaasFailure.PROTOCOL


def _not_now(answer: Answer, text: str) -> MaasFailure:
    # The database's own conflicts come back as a page, those of a machine's state as text.
    if answer.status in (409, 503) and (answer.stay is not None or answer.is_page):
        return MaasFailure.BUSY
    if _POWER.search(text):
        return MaasFailure.POWER
    known = {409: MaasFailure.CONFLICT, 503: MaasFailure.CAPACITY}
    return known.get(answer.status, MaasFailure.UPSTREAM)


def _not_found(text: str) -> MaasFailure:
    if _NO_MACHINE.search(text):
        return MaasFailure.ABSENT
    # Others are of a link or a disk: the machine may well be there.
    return MaasFailure.ADDRESS_TAKEN if text.startswith(_ADDRESS_TAKEN) else MaasFailure.CONFLICT


def _detail(failure: MaasFailure, answer: Answer, secrets: Iterable[str]) -> str:
    start = f"MAAS answered HTTP {answer.status}"
    if failure is MaasFailure.CLOCK_SKEW:
        return f"{start}: our clock and the region's differ by more than five minutes; correct the clocks"
    if failure is MaasFailure.AUTH and answer.status == 400:
        return f"{start}: it saw no API key; something between us takes the Authorization header away"
    if failure is MaasFailure.AUTH:
        return f"{start}: it refuses the API key"
    if 300 <= answer.status < 400:
        return f"{start}, a redirect; these are not followed, the URL has to name the region itself"
    if failure is MaasFailure.POWER:
        return f"{start}: it could not switch the machine by its BMC{said(answer, secrets)}"
    return f"{start}{said(answer, secrets)}"


def of_exception(request: Request, error: Exception, *, within: timedelta) -> MaasError:
    """The error that it is that there was no complete answer."""
    why = no_answer("MAAS", error, within=within)
    ambiguous = request.changes and why.arrived
    return MaasError(MaasFailure(why.reason), why.detail, operation=request.operation, ambiguous=ambiguous)


def garbled(request: Request, detail: str) -> MaasError:
    """A success whose body cannot be used: what was asked for was perhaps done."""
    return MaasError(MaasFailure.PROTOCOL, detail, operation=request.operation, ambiguous=request.changes)


def _fields(answer: Answer, secrets: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What a form says of its fields; nothing for a refusal that is text."""
    try:
        form = msgspec.json.decode(answer.body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(form, Mapping):
        return {}
    secrets = tuple(secrets)
    return {
        quoted(str(name).encode(), secrets): tuple(
            quoted(str(one).encode(), secrets) for one in (words if isinstance(words, list) else [words])
        )
        for name, words in form.items()
    }
