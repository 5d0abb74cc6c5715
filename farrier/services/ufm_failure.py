"""What an answer of UFM that is no success means, and what it means that there is none: total, nothing unclassified.

Used by `ufm_transport`; pure. Texts of UFM are quoted, short and cleaned, because an operator needs them; pages of a
proxy are not. `ambiguous` errs on the safe side: the caller reads once too often rather than taking a change that was
made for one that was not.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from farrier.model.ufm import UfmError, UfmFailure
from farrier.services.answer import Answer
from farrier.services.no_answer import no_answer
from farrier.services.quoting import said
from farrier.services.ufm_requests import Operation, Request


def of_answer(request: Request, answer: Answer, *, secrets: Iterable[str]) -> UfmError:
    """The error that an answer other than 2xx is."""
    failure = _class(request, answer)
    return UfmError(
        failure,
        _detail(failure, answer, secrets),
        operation=request.operation,
        ambiguous=request.changes and answer.status >= 500,
        retry_after=answer.stay or None,  # none at all is no answer to how long
    )


def _class(request: Request, answer: Answer) -> UfmFailure:
    # Only a change is refused, and only of a key there is none: UFM has always a list.
    refusals = (400, 404, 409, 422) if request.changes else (404,) if request.operation is Operation.PKEY else ()
    match answer.status:
        case 400 | 404 | 409 | 422 as status if status not in refusals:
            return UfmFailure.PROTOCOL
        case 401:
            return UfmFailure.AUTH
        case 403 if not answer.is_page:
            return UfmFailure.FORBIDDEN
        case 400 | 422 if not answer.is_page:
            return UfmFailure.INVALID
        case 404 if not answer.is_page:
            return UfmFailure.ABSENT
        case 409 if not answer.is_page:
            return UfmFailure.CONFLICT
        case 429 | 503:
            return UfmFailure.BUSY
        case status if status >= 500:
            return UfmFailure.UPSTREAM
        case _:
            return UfmFailure.PROTOCOL


def _detail(failure: UfmFailure, answer: Answer, secrets: Iterable[str]) -> str:
    start = f"UFM answered HTTP {answer.status}"
    if failure is UfmFailure.AUTH:
        return f"{start}: it refuses the user or the token"
    if 300 <= answer.status < 400:
        return f"{start}, a redirect; these are not followed, the URL has to name UFM itself"
    return f"{start}{said(answer, secrets)}"


def of_exception(request: Request, error: Exception, *, within: timedelta) -> UfmError:
    """The error that it is that there was no complete answer."""
    why = no_answer("UFM", error, within=within)
    ambiguous = request.changes and why.arrived
    return UfmError(UfmFailure(why.reason), why.detail, operation=request.operation, ambiguous=ambiguous)


def garbled(request: Request, detail: str) -> UfmError:
    """A success whose body cannot be used: what was asked for was perhaps done."""
    return UfmError(UfmFailure.PROTOCOL, detail, operation=request.operation, ambiguous=request.changes)
