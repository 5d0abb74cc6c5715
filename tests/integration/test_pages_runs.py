"""Actions on many nodes on pages: the selectors, the preview, the limits and the progress of the command line."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode

import anyio
import httpx
import pytest

from farrier.io.connections.pool import Connection
from farrier.web.server.backend import Backend
from farrier.web.server.serving import serving
from tests.integration.test_pages import without_guards
from tests.integration.test_pages_actions import ANSWER, acting, hidden
from tests.support.loop import PATIENCE
from tests.support.web import WITH_TOKEN, open_site, register

__all__ = ["acting"]

FLEET = """
    INSERT INTO farrier.nodes (name, status, management, site, rack, labels)
    SELECT 'gpu-' || n, CASE WHEN n = 19 THEN 'retired' ELSE 'active' END, 'unmanaged', 's' || n % 2, 'r' || n / 5,
           jsonb_build_object('row', (n % 3)::text)
      FROM generate_series(10, 19) n
"""
ASKED = "SELECT n.name FROM farrier.intents i JOIN farrier.nodes n ON n.id = i.node_id ORDER BY n.name"


@pytest.fixture
async def _fleet(conn: Connection) -> None:
    await without_guards(conn, FLEET)
    await conn.execute("SET session_replication_role = origin")


def texts(page: str) -> str:
    """The text of a page."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page)))


async def asked(conn: Connection) -> list[str]:
    return [record["name"] for record in await conn.fetch(ASKED)]


async def submitted(acting: httpx.AsyncClient, selection: dict[str, str | list[str]], **given: str) -> str:
    """Submit the form for this selection, and return the page of the run, which has ended."""
    path = f"/act?{urlencode(selection, doseq=True)}"
    form = await acting.get(path)
    assert form.status_code == 200, form.text
    sent = await acting.post(path, data=hidden(form.text) | given)
    assert sent.status_code == 303, texts(sent.text)
    return (await acting.get(sent.headers["location"])).text


@pytest.mark.usefixtures("_fleet")
@pytest.mark.parametrize(
    ("selection", "names"),
    [
        ({"q": "gpu-1[0-2]"}, ["gpu-10", "gpu-11", "gpu-12"]),
        ({"name": ["gpu-12", "gpu-14"]}, ["gpu-12", "gpu-14"]),
        ({"label": "row=0", "site": "s0"}, ["gpu-12", "gpu-18"]),
        ({"rack": "r2", "status": "active"}, ["gpu-10", "gpu-11", "gpu-12", "gpu-13", "gpu-14"]),
        ({"status": "retired"}, ["gpu-19"]),
        ({"management": "manageable"}, []),
    ],
)
async def test_the_filters_of_the_command_line_select_the_nodes(
    acting: httpx.AsyncClient, conn: Connection, selection: dict[str, str | list[str]], names: list[str]
) -> None:
    await conn.execute(ANSWER.format(status="accepted"))
    chosen = {"action": "pause", "which": "all", **selection}
    if not names:
        assert "no node is selected" in (await acting.get("/act", params=chosen)).text
        return
    page = await submitted(acting, chosen, reason="firmware")
    assert f"{len(names)} of {len(names)} done" in texts(page)
    assert await asked(conn) == names


@pytest.mark.usefixtures("_fleet")
async def test_ticked_nodes_are_selected_whatever_the_filter_is(acting: httpx.AsyncClient, conn: Connection) -> None:
    await conn.execute(ANSWER.format(status="accepted"))
    ids = re.findall(r'name="pick" value="(\d+)" aria-label="choose gpu-1[35]"', (await acting.get("/")).text)
    await submitted(acting, {"action": "pause", "which": "picked", "pick": ids, "site": "s0"}, reason="firmware")
    assert await asked(conn) == ["gpu-13", "gpu-15"]
    none = await acting.get("/act", params={"action": "pause", "which": "picked"})
    assert "no node is selected" in none.text and "<button>Submit" not in none.text


@pytest.mark.usefixtures("_fleet")
async def test_the_form_is_a_preview_that_submits_nothing(acting: httpx.AsyncClient, conn: Connection) -> None:
    preview = texts((await acting.get("/act", params={"action": "drain", "which": "all", "q": "gpu-1[89]"})).text)
    assert "1 active" in preview and "1 retired" in preview
    assert "the table of actions would reject 1 now" in preview and "no controller answered;" in preview
    assert "gpu-19 : drain is accepted" in preview
    assert await asked(conn) == []


@pytest.mark.usefixtures("_fleet")
async def test_the_run_shows_each_node_whose_intent_was_not_accepted(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    await conn.execute(ANSWER.format(status="rejected"))
    page = texts(await submitted(acting, {"action": "pause", "which": "all", "rack": "r2"}, reason="firmware"))
    assert "5 rejected" in page and page.count("the test <says> so") == 5
    assert "Repeat this run" in page


@pytest.mark.usefixtures("_fleet")
async def test_a_repeated_run_submits_no_intent_twice(acting: httpx.AsyncClient, conn: Connection) -> None:
    await conn.execute(ANSWER.format(status="rejected"))
    page = await submitted(acting, {"action": "pause", "which": "all", "rack": "r2"}, reason="firmware")
    (repeat,) = re.findall(r'href="([^"]+)">Repeat this run', page)
    form = await acting.get(html.unescape(repeat))
    again = await acting.post(html.unescape(repeat), data=hidden(form.text) | {"reason": "firmware"})
    assert again.status_code == 303
    assert len(await asked(conn)) == 5


@pytest.mark.usefixtures("_fleet")
async def test_a_late_node_stops_a_run_with_a_limit(acting: httpx.AsyncClient, conn: Connection) -> None:
    given = {"reason": "firmware", "max-in-flight": "2", "time-limit": "1s"}
    page = texts(await submitted(acting, {"action": "pause", "which": "all", "rack": "r2"}, **given))
    assert "2 late" in page and "3 not begun" in page and "has no answer after 1s" in page
    assert await asked(conn) == ["gpu-10", "gpu-11"]


@pytest.mark.usefixtures("_fleet")
async def test_a_run_without_a_limit_submits_all_and_reports_the_late(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    page = texts(
        await submitted(acting, {"action": "pause", "which": "all", "rack": "r2"}, reason="x", **{"time-limit": "1s"})
    )
    assert "5 late" in page
    assert len(await asked(conn)) == 5


@pytest.mark.usefixtures("_fleet")
async def test_a_run_waits_until_each_node_has_the_status(acting: httpx.AsyncClient, conn: Connection) -> None:
    await conn.execute(ANSWER.format(status="accepted"))
    given = {"reason": "x", "wait-until": "active", "time-limit": "1s"}
    page = texts(await submitted(acting, {"action": "pause", "which": "all", "q": "gpu-1[89]"}, **given))
    assert "1 accepted" in page and "gpu-19" in page and "is retired, not active, after 1s" in page


@pytest.mark.usefixtures("_fleet")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "reason"),
        ({"reason": "x", "max-in-flight": "0"}, "expected a whole number of at least 1, got '0'"),
        ({"reason": "x", "time-limit": "soon"}, "expected a duration such as 30s"),
        ({"reason": "x", "wait-until": "gone"}, "wait until: expected one of"),
    ],
)
async def test_wrong_input_is_named_and_kept_and_submits_nothing(
    acting: httpx.AsyncClient, conn: Connection, given: dict[str, str], told: str
) -> None:
    path = "/act?action=pause&which=all&rack=r2"
    form = await acting.get(path)
    refused = await acting.post(path, data=hidden(form.text) | given)
    assert refused.status_code == 400
    (problem,) = re.findall(r'role="alert">(.*?)</p>', refused.text)
    assert told in html.unescape(problem)
    assert all(value in refused.text for value in given.values())
    assert await asked(conn) == []


@pytest.mark.usefixtures("_fleet")
async def test_a_selection_that_changed_since_the_preview_is_shown_again(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    path = "/act?action=pause&which=all&site=s1"
    form = await acting.get(path)
    await without_guards(conn, "UPDATE farrier.nodes SET site = 's1' WHERE name = 'gpu-10'")
    refused = await acting.post(path, data=hidden(form.text) | {"reason": "x"})
    assert (refused.status_code, "other nodes are selected now" in refused.text) == (409, True)
    assert await asked(conn) == []


@pytest.mark.usefixtures("_fleet")
async def test_details_of_many_nodes_are_changed_as_on_the_command_line(
    acting: httpx.AsyncClient, conn: Connection
) -> None:
    await conn.execute(ANSWER.format(status="accepted"))
    selection: dict[str, str | list[str]] = {"action": "set", "which": "all", "q": "gpu-1[01]"}
    await submitted(acting, selection, **{"changes-of-details": "site=s1\nlabel=pool=a"})
    params = await conn.fetch("SELECT i.params::text AS params FROM farrier.intents i ORDER BY i.node_id")
    # gpu-11 is at this site already; labels are merged with the labels of each node.
    assert [record["params"] for record in params] == [
        '{"site": "s1", "labels": {"row": "1", "pool": "a"}}',
        '{"labels": {"row": "2", "pool": "a"}}',
    ]
    form = await acting.get("/act?action=set&which=all&q=gpu-10")
    wrong = await acting.post(
        "/act?action=set&which=all&q=gpu-10", data=hidden(form.text) | {"changes-of-details": "shelf=7"}
    )
    assert (wrong.status_code, "expected site=" in texts(wrong.text)) == (400, True)


async def test_only_a_client_that_may_submit_intents_can_choose_nodes(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-1")
    page = (await web.get("/")).text
    assert 'name="pick"' not in page and 'action="/act"' not in page
    for method in ("GET", "POST"):
        assert (await web.request(method, "/act?action=drain&which=all")).status_code == 401
    assert (await web.get("/act?action=fly&which=all", headers=WITH_TOKEN)).status_code == 400


@pytest.mark.usefixtures("_fleet")
async def test_a_run_shows_its_progress_goes_on_without_a_browser_and_is_stopped(
    backend: Backend, conn: Connection
) -> None:
    site = open_site(backend)
    async with (
        serving(site.app, host="127.0.0.1", port=0) as url,
        httpx.AsyncClient(base_url=url, headers=WITH_TOKEN, trust_env=False) as browser,
    ):
        path = "/act?action=pause&which=all&rack=r2"
        form = await browser.get(path)
        given = hidden(form.text) | {"reason": "firmware", "max-in-flight": "2", "time-limit": "1h"}
        begun = (await browser.post(path, data=given)).headers["location"]
        with anyio.fail_after(PATIENCE):
            while "2 in progress, 3 not begun" not in texts((page := await browser.get(begun)).text):
                pass
        assert (await browser.post(path, data=given)).headers["location"] == begun  # sent twice, begun once
        assert f'href="{begun}"' in (await browser.get("/")).text
        await browser.post(begun, data=hidden(page.text))
        await conn.execute("UPDATE farrier.intents SET status = 'accepted', reason = '', answered_at = farrier.now()")
        with anyio.fail_after(PATIENCE):
            while "ended" not in (shown := texts((await browser.get(begun)).text)):
                pass
        assert "2 accepted" in shown and "3 not begun" in shown and "the run was stopped" in shown
        assert begun not in (await browser.get("/")).text
    assert await asked(conn) == ["gpu-10", "gpu-11"]


async def test_a_run_of_another_process_is_not_found(acting: httpx.AsyncClient) -> None:
    missing = await acting.get("/runs/nosuch")
    assert (missing.status_code, "its intents stay valid" in missing.text) == (404, True)
