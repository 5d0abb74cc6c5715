"""Actions on pages: offered where the model accepts them, confirmed, submitted once, and only by the server's forms."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from farrier.io.connections.pool import Connection
from farrier.model.intents import actions
from farrier.model.intents.acceptance import Allowed
from farrier.model.intents.actions import Action
from farrier.model.network.segment import SPEC as SEGMENT
from farrier.model.node.layers import Management, NodeStatus
from tests.integration.test_pages import without_guards
from tests.support import owners, pg
from tests.support.web import WITH_TOKEN, register

ANSWER = """
    CREATE FUNCTION farrier_test.answer() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        NEW.status := '{status}'; NEW.reason := 'the test <says> so'; NEW.answered_at := farrier.now();
        RETURN NEW; END $$;
    CREATE TRIGGER zz_answer BEFORE INSERT ON farrier.intents FOR EACH ROW EXECUTE FUNCTION farrier_test.answer()
"""


def choices(page: str) -> set[str]:
    """The actions that a page offers."""
    return set(re.findall(r'href="[^"]*/act/(\w+)"', page))


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of a form."""
    return dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)">', page))


@pytest.fixture
def acting(web: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser that may submit intents."""
    web.headers.update(WITH_TOKEN)
    return web


async def test_a_client_without_a_token_is_offered_no_action_and_gets_no_form(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    assert not choices((await web.get("/nodes/gpu-1")).text)
    assert "/create/" not in (await web.get("/resources/network_segment")).text
    for method in ("GET", "POST"):
        assert (await web.request(method, "/nodes/gpu-1/act/manage")).status_code == 401


@pytest.mark.parametrize("status", [NodeStatus.ENROLLING, NodeStatus.ACTIVE, NodeStatus.RETIRED])
async def test_a_page_offers_the_actions_that_the_model_accepts_and_no_other(
    acting: httpx.AsyncClient, conn: Connection, status: NodeStatus
) -> None:
    await without_guards(
        conn, f"INSERT INTO farrier.nodes (name, status, management) VALUES ('gpu-1', '{status}', 'manageable')"
    )
    accepted = {
        action.value
        for action in Action
        if isinstance(actions.check(action, status, Management.MANAGEABLE, None), Allowed)
    }
    assert choices((await acting.get("/nodes/gpu-1")).text) == accepted - {"unpause"}
    for action in set(Action) - accepted:
        form = (await acting.get(f"/nodes/gpu-1/act/{action}")).text
        assert f"{action} is accepted" in form and "<button>Submit" not in form
    assert (await acting.get("/nodes/gpu-1/act/fly")).status_code == 404


async def test_the_page_of_a_paused_node_offers_only_actions_answered_during_the_pause(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(
        conn,
        "INSERT INTO farrier.nodes (name, status, management, paused)"
        """ VALUES ('gpu-1', 'active', 'unmanaged', '{"reason": "mine", "at": "2026-01-01T00:00:00Z"}')""",
    )
    assert choices((await acting.get("/nodes/gpu-1")).text) == {"pause", "unpause"}


async def test_a_confirmed_form_is_one_intent_even_if_it_is_sent_twice(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await conn.execute(ANSWER.format(status="accepted"))
    form = await acting.get("/nodes/gpu-1/act/quarantine")
    assert "hold the node out of service" in form.text.lower()
    assert "required" in form.text and 'maxlength="500"' in form.text
    for _ in range(2):
        sent = await acting.post("/nodes/gpu-1/act/quarantine", data=hidden(form.text) | {"reason": "smoke"})
        assert (sent.status_code, sent.headers["location"]) == (303, "/nodes/gpu-1#intents-title")
    ((action, params),) = await conn.fetch("SELECT action, params::text FROM farrier.intents")
    assert (action, params) == ("quarantine", '{"reason": "smoke"}')


async def test_fields_of_a_form_become_parameters_of_their_types(acting: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    await conn.execute(ANSWER.format(status="accepted"))
    form = await acting.get("/nodes/gpu-1/act/set")
    typed = {"labels": '{"row": "7"}', "macs": "02:00:00:00:00:01,02:00:00:00:00:02", "agentless": "true", "rack": ""}
    assert (await acting.post("/nodes/gpu-1/act/set", data=hidden(form.text) | typed)).status_code == 303
    assert await conn.fetchval("SELECT params FROM farrier.intents") == (
        '{"macs": ["02:00:00:00:00:01", "02:00:00:00:00:02"], "labels": {"row": "7"}, "agentless": true}'
    )


async def test_a_link_fills_in_parameters_of_a_form_which_chooses_no_required_value_itself(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(
        conn, "INSERT INTO farrier.nodes (name, status, management) VALUES ('gpu-1', 'active', 'manageable')"
    )
    page = (await acting.get("/nodes/gpu-1/act/decommission?mode=soft_reset&force=true&reason=gone")).text
    assert "<option selected>soft_reset" in page and 'value="true" checked' in page and ">gone</textarea>" in page
    assert not await conn.fetchval("SELECT count(*) FROM farrier.intents")
    page = (await acting.get("/nodes/gpu-1/act/decommission")).text
    assert '<select name="mode" required><option value="">' in page


async def test_a_refused_form_shows_why_and_keeps_what_was_typed(acting: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    form = await acting.get("/nodes/gpu-1/act/set")
    wrong = await acting.post("/nodes/gpu-1/act/set", data=hidden(form.text) | {"site": "../x", "rack": "r7"})
    assert wrong.status_code == 400
    assert "1 to 63 letters" in html.unescape(wrong.text) and 'value="r7"' in wrong.text
    await conn.execute(ANSWER.format(status="rejected"))
    rejected = await acting.post("/nodes/gpu-1/act/set", data=hidden(wrong.text) | {"rack": "r7"})
    assert rejected.status_code == 409
    assert "rejected: the test &lt;says&gt; so" in rejected.text


async def test_a_form_of_another_site_submits_nothing(acting: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    own = hidden((await acting.get("/nodes/gpu-1/act/manage")).text)
    path = "/nodes/gpu-1/act/manage"
    for fields, headers in (
        ({}, {}),
        ({"form-token": "guessed"}, {}),
        ({"form-token": ""}, {"cookie": "farrier-form="}),
        (own, {"sec-fetch-site": "cross-site"}),
    ):
        assert (await acting.post(path, data=fields, headers=headers)).status_code in (400, 403)
    assert (await acting.post(path, content=b"x=" + b"y" * 65536)).status_code == 413
    assert (await acting.post(path, content=b"\xff=1")).status_code == 400
    assert await conn.fetchval("SELECT count(*) FROM farrier.intents") == 0
    cookie = (await acting.get(path, headers={"cookie": ""})).headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie


async def test_resources_of_any_kind_are_created_and_acted_on(
    acting: httpx.AsyncClient, db: pg.Database, conn: Connection
) -> None:
    assert 'href="/create/network_segment"' in (await acting.get("/resources/network_segment")).text
    form = await acting.get("/create/network_segment")
    fields = hidden(form.text) | {"form-name": "lan", "site": "ams", "prefixes": "10.0.0.0/24"}
    made = await acting.post("/create/network_segment", data=fields)
    assert (made.status_code, made.headers["location"]) == (303, "/resources/network_segment/lan#intents-title")
    again = await acting.post("/create/network_segment", data=fields | {"form-key": "other"})
    assert again.status_code == 409 and "lan" in again.text
    for action in ("fly", "create"):
        assert (await acting.get(f"/resources/network_segment/lan/act/{action}")).status_code == 404
    assert (await acting.get("/create/barrel")).status_code == 404


@pytest.mark.parametrize("state", SEGMENT.states)
async def test_a_page_of_any_kind_offers_the_actions_that_its_state_accepts_and_no_other(
    acting: httpx.AsyncClient, conn: Connection, state: str
) -> None:
    ended = "farrier.now()" if state in SEGMENT.terminal else "NULL"
    await without_guards(
        conn,
        "INSERT INTO farrier.network_segments (name, site, prefixes, mtu, state, ended_at)"
        f" VALUES ('lan', 'ams', '{{10.0.0.0/24}}', 1500, '{state}', {ended})",
    )
    path = f"/resources/network_segment/{await conn.fetchval('SELECT id FROM farrier.network_segments')}"
    accepted = {action for action in SEGMENT.actions if state in SEGMENT.states_accepting(action)}
    assert choices((await acting.get(path)).text) == accepted
    for action in SEGMENT.actions:
        form = (await acting.get(f"{path}/act/{action}")).text
        assert ("<button>Submit" in form) == (action in accepted)
        why = "has ended" if state in SEGMENT.terminal else f"is {state}"
        assert (f"this network segment {why}" in form) == (action not in accepted)


async def test_a_recommended_intent_leads_to_a_form_with_its_parameters(
    acting: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    await without_guards(
        conn,
        "INSERT INTO farrier.nodes (name, status, management, agentless, ever_onboarded, ever_active)"
        " VALUES ('gpu-1', 'quarantined', 'manageable', true, true, true)",
    )
    await conn.execute(
        "INSERT INTO farrier.node_conditions (node, source, id, requested, effect) "
        "VALUES (1, 'operator', 'default', 'quarantine', 'quarantine')"
    )
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 2.0})
    offered = re.findall(r'class="button recommended" href="([^"]+)"', (await acting.get("/nodes/gpu-1")).text)
    (forced,) = (html.unescape(path) for path in offered if "?" in path)
    assert forced == "/nodes/gpu-1/act/drain?force=true"
    assert 'name="force" value="true" checked' in (await acting.get(forced)).text
