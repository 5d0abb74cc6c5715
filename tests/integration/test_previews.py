"""Every preview has the answers of the controllers: forms of pages, dry runs, and confirmations on the command line."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from farrier.errors import ExitCode
from tests.integration.cli.conftest import Prompt
from tests.integration.test_pages_actions import choices, hidden
from tests.integration.test_pages_runs import texts
from tests.support import pg
from tests.support.answering import answering
from tests.support.site import Site, opened
from tests.support.web import WITH_TOKEN, backend_on, client_of, open_site

ADOPT = "adopt_observed_state"
INTENTS = "SELECT count(*) FROM farrier.intents"


@asynccontextmanager
async def browsing(site: Site, db: pg.Database) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that may submit intents, and a controller that answers questions."""
    async with answering(site), client_of(open_site(backend_on(site.pool, db.dsn))) as browser:
        browser.headers.update(WITH_TOKEN)
        yield browser


async def test_a_form_shows_the_refusal_that_only_a_controller_knows(db: pg.Database) -> None:
    async with opened(db) as site:
        bare = await (await site.register("bare", agentless=True)).asked("onboard", mode="manual")
        path = f"/nodes/{bare.name}/act/{ADOPT}"
        async with browsing(site, db) as browser:
            form = (await browser.get(path)).text
            offered = choices((await browser.get(f"/nodes/{bare.name}")).text)
        refusal = (await bare.ask(ADOPT)).reason
        assert refusal is not None and refusal in texts(form)
        assert "<button>Submit" not in form and "no controller answered" not in form
        assert ADOPT not in offered and "quarantine" in offered


async def test_a_form_says_plainly_that_no_controller_answered(db: pg.Database) -> None:
    async with opened(db) as site:
        bare = await (await site.register("bare", agentless=True)).asked("onboard", mode="manual")
    async with db.pool(1) as pool, client_of(open_site(backend_on(pool, db.dsn))) as browser:
        browser.headers.update(WITH_TOKEN)
        form = (await browser.get(f"/nodes/{bare.name}/act/{ADOPT}")).text
        assert "no controller answered; this is the answer of the table of actions" in texts(form)
        assert "<button>Submit" in form
        dry = await browser.post(f"/nodes/{bare.name}/act/{ADOPT}", data=hidden(form) | {"dry-run": "1"})
        assert "no controller answered, so the answer is not known" in texts(dry.text)


async def test_an_action_that_needs_a_flag_is_offered_and_a_dry_run_answers_for_the_given_parameters(
    db: pg.Database,
) -> None:
    async with opened(db) as site:
        machine = await (await site.active()).asked("set", agentless=True)
        path = f"/nodes/{machine.name}/act/drain"
        async with browsing(site, db) as browser:
            assert "drain" in choices((await browser.get(f"/nodes/{machine.name}")).text)
            form = (await browser.get(path)).text
            assert "depends on the parameters" in texts(form) and "<button>Submit" in form
            before = await site.conn.fetchval(INTENTS)
            dry = hidden(form) | {"dry-run": "1"}
            assert "nothing was submitted; would be rejected" in texts((await browser.post(path, data=dry)).text)
            forced = await browser.post(path, data=dry | {"force": "true", "reason": "no agent"})
        assert "nothing was submitted; would be accepted" in texts(forced.text) and "checked" in forced.text
        assert await site.conn.fetchval(INTENTS) == before


async def test_an_action_that_needs_a_value_of_the_operator_is_offered(db: pg.Database) -> None:
    async with opened(db) as site:
        machine = await site.active()
        for key in ("fans", "disks"):
            await machine.asked("quarantine", reason=key, key=key)
        async with browsing(site, db) as browser:
            assert "release" in choices((await browser.get(f"/nodes/{machine.name}")).text)
            form = (await browser.get(f"/nodes/{machine.name}/act/release")).text
        assert "fans" in texts(form) and "<button>Submit" in form


async def test_the_form_for_many_nodes_has_the_answers_of_the_controllers(db: pg.Database) -> None:
    async with opened(db) as site:
        for name in ("bare-1", "bare-2"):
            await (await site.register(name, agentless=True)).asked("onboard", mode="manual")
        path = f"/act?action={ADOPT}&which=all&q=bare-"
        async with browsing(site, db) as browser:
            form = await browser.get(path)
            before = await site.conn.fetchval(INTENTS)
            dry = await browser.post(path, data=hidden(form.text) | {"dry-run": "1"})
            assert await site.conn.fetchval(INTENTS) == before
        assert "Nothing was submitted. 0 of 2 would be accepted now." in texts(dry.text)
        for shown in (texts(form.text), texts(dry.text)):
            assert "the controllers would reject 2 now" in shown and "bare-1 : " in shown
            assert "no controller answered" not in shown


@pytest.mark.parametrize("words", ["import FILE --dry-run", "node manage bare-* --dry-run", "node manage bare-*"])
async def test_a_command_has_the_answers_of_the_controllers(db: pg.Database, words: str, tmp_path: Path) -> None:
    (tmp_path / "FILE.csv").write_text("name,macs\nbare-1,02:00:00:00:00:01\nbare-2,02:00:00:00:00:02\nbare-3,\n")
    async with opened(db) as site, answering(site):
        for name in ("bare-1", "bare-2"):
            await site.register(name)
        await site.register("other", macs=["02:00:00:00:00:01", "02:00:00:00:00:02"])
        ends = ExitCode.FAILED if "--dry-run" in words else ExitCode.USAGE
        given = words.replace("FILE", str(tmp_path / "FILE.csv")).split()
        said = await Prompt(FARRIER_DATABASE_DSN=db.dsn)(*given, ends=ends)
        assert "the controllers would reject 2 now" in " ".join(said.err.replace("│", " ").split())
        assert not await site.conn.fetchval(INTENTS)
        assert not await site.conn.fetchval("SELECT true FROM farrier.nodes WHERE name = 'bare-3'")
