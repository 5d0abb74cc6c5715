"""The parameters of UFM: its authentication, limits, and the table of failures. Error texts of UFM are quoted, because
an operator needs them."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Final

from farrier import protocols
from farrier.config.sites import UfmSite
from farrier.model.partition.ufm import UfmError
from farrier.model.partition.ufm import UfmFailure as F
from farrier.services.http.client import Pass, Service
from farrier.services.http.failures import FailureRule, Failures, redirect
from farrier.services.ufm.requests import UfmOperation

# Enough for a thousand partitions with a hundred ports each; a port takes 80 bytes in the list.
LARGEST_BODY_BYTES = 9 * 1024 * 1024
ATTEMPTS = 3

# UFM refuses only changes, and only a single partition can be missing, because the lists always exist.
_CHANGES: Final = frozenset(UfmOperation) - {UfmOperation.LIST_PORTS, UfmOperation.LIST_QOS, UfmOperation.PKEY}

RULES: Final = (
    FailureRule(failure=F.AUTH, statuses={401}, detail="UFM returned HTTP {status}: it refuses the user or the token"),
    FailureRule(failure=F.FORBIDDEN, statuses={403}, page=False),
    FailureRule(failure=F.INVALID, statuses={400, 422}, operations=_CHANGES, page=False),
    FailureRule(failure=F.ABSENT, statuses={404}, operations=_CHANGES | {UfmOperation.PKEY}, page=False),
    FailureRule(failure=F.CONFLICT, statuses={409}, operations=_CHANGES, page=False),
    FailureRule(failure=F.BUSY, statuses={429, 503}),
    FailureRule(failure=F.UPSTREAM, statuses=range(500, 1000)),
    redirect(F.PROTOCOL, "the URL must be that of UFM itself"),
    FailureRule(failure=F.PROTOCOL),
)

FAILURES: Final = Failures(
    service="UFM",
    error=UfmError,
    failure=F,
    rules=RULES,
    unauthorized=F.AUTH,
    credential="the credential",
    busy=F.BUSY,
    retried=frozenset({F.BUSY, F.UPSTREAM, F.UNREACHABLE}),
)

UFM: Final = Service(
    failures=FAILURES,
    concurrency=4,  # UFM handles partitions one after the other, so more requests would only queue in UFM
    largest_body_bytes=LARGEST_BODY_BYTES,
    attempts=ATTEMPTS,
    patience=timedelta(seconds=10),  # if a step would wait longer for a slot, it is requeued instead
    longest_pause=timedelta(seconds=5),
    credential_kept=timedelta(seconds=1),
    refused_kept=timedelta(minutes=1),  # UFM locks a user after some wrong passwords in a row
)


async def pass_of(store: protocols.CredentialStore, site: UfmSite) -> Pass:
    """Return the headers for the credential of a site, in UFM's form. Raises `CredentialError`."""
    if site.token:
        token = await store.token(site.token)
        return Pass({"Authorization": f"Basic {token}"}, (token,))
    found = await store.resolve(site.credential)
    plain = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
    return Pass({"Authorization": f"Basic {plain}"}, (found.password, plain))
