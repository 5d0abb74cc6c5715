"""A session that a killed process left is closed by its recorded id; no other is touched.

The tests copy the files that a process has at the moment when it is killed, and open a client on the copy;
`tests/e2e/test_bmc_sessions.py` kills a real process.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from farrier.errors import ConfigError
from farrier.model.machine.bmc import BmcAuth, BmcError, BmcFailure, PowerState
from farrier.services.bmc.client import RedfishBmc
from tests.support.bmc import SESSIONS, FakeBmc, Page, Silence, at, connect
from tests.support.clock import HandClock

SESSION = BmcAuth.SESSION
SERVICE = "/redfish/v1/SessionService"


def deleted(bmc: FakeBmc) -> list[str]:
    return [request.path.rpartition("/")[2] for request in bmc.requests if request.method == "DELETE"]


def posted(bmc: FakeBmc) -> int:
    return sum(request.method == "POST" for request in bmc.requests)


async def killed(bmc: FakeBmc, tmp_path: Path, *, in_login: bool = False) -> Path:
    """Use the BMC as a process that is then killed with its session open; returns a copy of its files. With `in_login`
    it is killed while it waits for the response to its login."""
    disk, own = tmp_path / "of the killed", tmp_path / "living"

    def copy() -> None:
        shutil.copytree(own, disk)

    if in_login:
        bmc.on_login = copy
    async with connect(bmc.ca_file, auth=SESSION, session_directory=own) as client:
        await client.read(at(bmc))
        if not in_login:
            copy()
        bmc.on_login = lambda: None
        open_then = set(bmc.sessions)
    bmc.sessions |= open_then  # the killed process has not ended its session
    bmc.requests.clear()
    return disk


async def read(client: RedfishBmc, bmc: FakeBmc) -> None:
    assert (await client.read(at(bmc))).power is PowerState.ON


async def test_a_session_that_a_killed_process_left_is_closed_by_its_id_and_no_other(
    bmc: FakeBmc, tmp_path: Path
) -> None:
    bmc.sessions |= {"other-1", "other-2"}
    bmc.session_ids = ["5"]
    disk = await killed(bmc, tmp_path)
    async with connect(bmc.ca_file, auth=SESSION, session_directory=disk) as client:
        await read(client, bmc)
        assert deleted(bmc) == ["5"]
        assert len(bmc.sessions) == 3
        await read(client, bmc)
    assert bmc.sessions == {"other-1", "other-2"}
    assert list(disk.rglob("*.json")) == []


async def test_a_session_id_that_the_bmc_reused_is_not_closed(bmc: FakeBmc, tmp_path: Path) -> None:
    for said in ({"UserName": "somebody"}, {"UserName": "admin", "CreatedTime": "later"}):
        bmc.session_ids = ["5"]
        disk = await killed(bmc, tmp_path)
        bmc.sessions = {"of another"}
        bmc.places["5"] = "of another", said
        async with connect(bmc.ca_file, auth=SESSION, session_directory=disk) as client:
            await read(client, bmc)
        assert "5" not in deleted(bmc)
        assert bmc.sessions == {"of another"}
        shutil.rmtree(disk)
        shutil.rmtree(tmp_path / "living")
        bmc.sessions.clear()


async def test_an_ambiguous_session_is_left_open_and_basic_is_used_until_it_expires(
    bmc: FakeBmc, tmp_path: Path
) -> None:
    """The id is a number, and the BMC reports no creation time: another replica may have got the same ID since."""
    bmc.tells_time, bmc.session_ids = False, ["5"]
    bmc.answer(SERVICE, {"SessionTimeout": 600})
    disk, clock = await killed(bmc, tmp_path), HandClock()
    async with connect(bmc.ca_file, auth=SESSION, session_directory=disk, clock=clock) as client:
        await read(client, bmc)
        assert "5" not in deleted(bmc)
        before = posted(bmc)
        clock.advance(timedelta(minutes=9))
        await read(client, bmc)
        assert posted(bmc) == before, "no session is opened while the old one may exist"
        assert bmc.requests[-1].authorization is not None
        clock.advance(timedelta(minutes=2))
        await read(client, bmc)
        assert posted(bmc) == before + 1
    assert "5" not in deleted(bmc)


async def test_after_a_process_killed_in_its_login_no_session_is_opened_until_expiry(
    bmc: FakeBmc, tmp_path: Path
) -> None:
    """The session's id is unknown, so it is not closed; no other session is opened until it has expired."""
    disk, clock = await killed(bmc, tmp_path, in_login=True), HandClock()
    async with connect(bmc.ca_file, auth=SESSION, session_directory=disk, clock=clock) as client:
        await read(client, bmc)
        assert posted(bmc) == 0 and deleted(bmc) == []
        clock.advance(timedelta(minutes=31))
        await read(client, bmc)
        assert posted(bmc) == 1


async def test_after_a_login_with_a_lost_response_basic_is_used(bmc: FakeBmc) -> None:
    bmc.session_answer = Silence()
    clock = HandClock()
    async with connect(bmc.ca_file, auth=SESSION, clock=clock, deadline=timedelta(milliseconds=500)) as client:
        with pytest.raises(BmcError) as raised:
            await client.read(at(bmc))
        assert raised.value.failure is BmcFailure.TIMEOUT
        bmc.session_answer = None
        await read(client, bmc)
        assert posted(bmc) == 1


async def test_a_refused_login_leaves_no_record(bmc: FakeBmc, tmp_path: Path) -> None:
    bmc.session_answer = Page(503)
    place = tmp_path / "records"
    async with connect(bmc.ca_file, auth=SESSION, session_directory=place) as client:
        with pytest.raises(BmcError):
            await client.read(at(bmc))
        assert list(place.rglob("*.json")) == []
        bmc.session_answer = None
        await read(client, bmc)
        assert len(bmc.sessions) == 1


async def test_a_living_process_keeps_its_session(bmc: FakeBmc, tmp_path: Path) -> None:
    """Two processes on one machine may share the directory."""
    place = tmp_path / "records"
    async with connect(bmc.ca_file, auth=SESSION, session_directory=place) as one:
        await read(one, bmc)
        async with connect(bmc.ca_file, auth=SESSION, session_directory=place) as other:
            await read(other, bmc)
            assert len(bmc.sessions) == 2 and deleted(bmc) == []
        await read(one, bmc)
    assert bmc.sessions == set()


async def test_a_session_is_on_disk_before_its_login_and_no_secret_ever_is(bmc: FakeBmc, tmp_path: Path) -> None:
    place = tmp_path / "records"
    seen: list[str] = []
    bmc.on_login = lambda: seen.extend(path.read_text() for path in place.rglob("*.json"))
    async with connect(bmc.ca_file, auth=SESSION, session_directory=place) as client:
        await read(client, bmc)
        (token,) = bmc.sessions
        bmc.places["id-1"] = token, {}
        kept = [path.read_text() for path in place.rglob("*.json")]
    assert len(seen) == len(kept) == 1
    assert bmc.url in seen[0] and SESSIONS not in seen[0]
    assert SESSIONS in kept[0] and "s3kr1t" not in kept[0]


async def test_a_session_that_cannot_be_recorded_is_not_opened(bmc: FakeBmc, tmp_path: Path) -> None:
    place = tmp_path / "records"
    async with connect(bmc.ca_file, auth=SESSION, session_directory=place) as client:
        shutil.rmtree(place)
        await read(client, bmc)
    assert posted(bmc) == 0


async def test_sessions_without_a_place_for_records_stop_the_start(bmc: FakeBmc, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (None, tmp_path / "file"):
        with pytest.raises(ConfigError, match=r"bmc\.session_directory"):
            async with connect(bmc.ca_file, auth=SESSION, session_directory=place):
                raise AssertionError("it was opened")


async def test_an_adoption_sends_nothing_but_gets(bmc: FakeBmc, tmp_path: Path) -> None:
    """Tested with sessions configured, with a session that a killed process left, and after the open one has ended."""
    disk = await killed(bmc, tmp_path)
    async with connect(bmc.ca_file, auth=SESSION, session_directory=disk) as client:
        await client.verify(at(bmc, None, only_reads=True), macs=True)
        assert set(bmc.methods) == {"GET"}
        await read(client, bmc)
        bmc.requests.clear()
        await client.verify(at(bmc, only_reads=True), macs=True)
        assert {request.authorization for request in bmc.requests} == {None}, "the open session is used"
        bmc.sessions.clear()
        await client.verify(at(bmc, only_reads=True), macs=True)
        assert set(bmc.methods) == {"GET"}


async def test_without_a_directory_sessions_are_recorded_in_the_unit_s_state_or_refused(
    bmc: FakeBmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    with pytest.raises(ConfigError, match=r"bmc\.session_directory is not set"):
        async with connect(bmc.ca_file, auth=SESSION, session_directory=""):
            pass
    monkeypatch.setenv("STATE_DIRECTORY", f"{tmp_path / 'state'}:/elsewhere")
    async with connect(bmc.ca_file, auth=SESSION, session_directory="") as client:
        await client.read(at(bmc))
        assert len(list((tmp_path / "state/bmc-sessions").rglob("*.json"))) == 1
