"""A planted password turns up nowhere: not in an error, a traceback with its variables, a log, a reading or a repr.

Every end of a call is tested, with logging at level DEBUG, and with a BMC that repeats what it receives.
"""

from __future__ import annotations

import base64
import json
import logging
import traceback
from datetime import timedelta
from typing import Any
from urllib import parse

import msgspec
import pytest
from structlog.testing import capture_logs
from typing_extensions import override

from farrier.model.intents.params import PowerRequest
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, BmcTarget
from farrier.services.bmc.client import RedfishBmc
from tests.support.bmc import (
    CREDENTIAL,
    RESET,
    ROOT,
    SYSTEM,
    USERNAME,
    Answer,
    FakeBmc,
    Garbage,
    HangUp,
    NoReply,
    Page,
    Silence,
    connect,
    members,
    system,
)
from tests.support.observed import Observed

SOON = timedelta(milliseconds=500)
SECRET = 'Pl4nted "t3lltale" ünd/more'
SENT = base64.b64encode(f"{USERNAME}:{SECRET}".encode()).decode()
SPELLINGS = (SECRET, SENT, json.dumps(SECRET)[1:-1], parse.quote(SECRET), "t3lltale")
TOKEN = "t0ken-1"  # the token of the first session that the BMC opens
ECHO = f"{SECRET} {SENT} {parse.quote(SECRET)} {TOKEN}"
BODY = json.dumps({"error": {"message": ECHO}}).encode()


def clean(text: str, *more: str) -> bool:
    return not any(spelling in text for spelling in (*SPELLINGS, *more))


def text_of(error: BaseException) -> str:
    """All that a program could print of an error, including the variables of farrier's frames."""
    whole = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in whole.stack if "/farrier/" in frame.filename]
    assert frames, "no frame of farrier raised the error"
    return "\n".join(
        [str(error), repr(error), repr(vars(error)), *whole.format_exception_only(), *map(repr_of, frames)]
    )


def repr_of(frame: traceback.FrameSummary) -> str:
    return f"{frame.name}: {frame.locals}"


class Broken(Observed):
    """An observer with a bug that raises an error with the secrets."""

    is_sound = False

    @override
    def requested(self, *_: object) -> None:
        if not self.is_sound:
            raise ZeroDivisionError(f"observed {ECHO}")


ENDS: dict[str, Answer] = {
    "refused": Page(401, BODY),
    "forbidden": Page(403, BODY + b"PasswordChangeRequired"),
    "missing": Page(404, BODY),
    "error": Page(500, BODY),
    "busy": Page(503, BODY, (("Retry-After", SECRET.encode("ascii", "ignore").decode()),)),
    "no session": Page(503, b"SessionLimitExceeded" + BODY),
    "redirect": Page(302, BODY, (("Location", f"https://{USERNAME}:x@192.0.2.1/"),)),
    "malformed": Page(200, BODY[:-1]),
    "power": system(PowerState=ECHO),
    "no action": system(Actions=...),
    "odd action": system(
        Actions={"#ComputerSystem.Reset": {"target": RESET, "ResetType@Redfish.AllowableValues": [ECHO]}}
    ),
    "link": system(Links={"ManagedBy": [{"@odata.id": f"/{ECHO}"}]}),
    "other host": system(Links={"ManagedBy": [{"@odata.id": f"//192.0.2.1/{ECHO}"}]}),
    "half": HangUp(),
    "nothing": NoReply(),
    "not http": Garbage(BODY),
    "silence": Silence(),
    "sound": system(),
}


async def calls(client: RedfishBmc, target: BmcTarget) -> list[str]:
    """The results or errors of every kind of call."""
    heard = [repr(client)]
    for call in (
        client.verify(target),
        client.verify(msgspec.structs.replace(target, system_path=None), macs=True),
        client.read(target),
        client.set_power(target, PowerRequest.OFF),
    ):
        try:
            heard.append(repr(await call))
        except BmcError as error:
            heard.append(text_of(error))
    return heard


@pytest.mark.matrix(keep=9)
@pytest.mark.parametrize("auth", list(BmcAuth))
@pytest.mark.parametrize("end", ENDS)
async def test_a_planted_secret_is_in_no_output(
    bmc: FakeBmc, end: str, auth: BmcAuth, *, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    bmc.password = SECRET
    bmc.answer(SYSTEM, ENDS[end])
    bmc.answer(f"/{ECHO}", Page(500, BODY))
    settings: dict[str, Any] = {"auth": auth, "power_deadline": SOON}
    if end == "silence":
        settings["deadline"] = SOON
    with capture_logs() as logs, caplog.at_level(logging.DEBUG):
        async with connect(bmc.ca_file, credential=f"{USERNAME}:{SECRET}", **settings) as client:
            heard = await calls(client, BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM))
    assert bmc.logins > 0, "the secret was sent"
    printed = capfd.readouterr()
    tokens = (TOKEN,) if auth is BmcAuth.SESSION else ()  # without sessions there is no token
    for text in (*heard, *map(repr, logs), caplog.text, printed.out, printed.err):
        assert clean(text, *tokens), text


async def test_the_log_of_a_bug_contains_no_secret(bmc: FakeBmc, caplog: pytest.LogCaptureFixture) -> None:
    bmc.password = SECRET
    target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
    with capture_logs() as logs, caplog.at_level(logging.DEBUG):
        async with connect(bmc.ca_file, credential=f"{USERNAME}:{SECRET}", observed=Broken("bmc")) as client:
            with pytest.raises(BmcError) as raised:
                await client.read(target)
    assert raised.value.failure is BmcFailure.INTERNAL
    assert [entry["event"] for entry in logs] == ["bmc.client_bug"]
    assert "ZeroDivisionError: observed ***" in logs[0]["traceback"]
    assert clean(logs[0]["traceback"])
    assert clean(text_of(raised.value) + caplog.text)


async def test_the_log_of_a_bug_contains_no_session_token(bmc: FakeBmc) -> None:
    observed = Broken("bmc")
    observed.is_sound = True
    target = BmcTarget(address=bmc.url, credential=CREDENTIAL, system_path=SYSTEM)
    with capture_logs() as logs:
        async with connect(bmc.ca_file, auth=BmcAuth.SESSION, observed=observed) as client:
            await client.read(target)
            observed.is_sound = False
            with pytest.raises(BmcError):
                await client.read(target)
    assert bmc.sessions == set()
    assert TOKEN not in repr(logs)


async def test_a_password_is_scrubbed_from_links_that_a_bmc_made_of_it(bmc: FakeBmc) -> None:
    bmc.password = SECRET
    bmc.answer(ROOT, {"Systems": {"@odata.id": f"/{parse.quote(SECRET)}"}})
    bmc.answer(f"/{parse.quote(SECRET)}", members())
    async with connect(bmc.ca_file, credential=f"{USERNAME}:{SECRET}") as client:
        with pytest.raises(BmcError) as raised:
            await client.verify(BmcTarget(address=bmc.url, credential=CREDENTIAL))
    assert clean(text_of(raised.value))
