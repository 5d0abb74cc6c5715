"""The pages for operators: what a node is doing, lists with filters and orders, history, kinds and controllers."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import httpx
import msgspec
import pytest

from farrier.io.connections.pool import Connection
from farrier.io.queries.lists import PostgresQueries
from farrier.model.intents.selection import label_tests
from farrier.model.node.details import LISTED
from farrier.model.node.stages import STAGES
from farrier.model.views.nodes import BY_NAME, GROUPS, ORDERS, NodeFilter, SortKey
from farrier.web.pages import resource as one
from farrier.web.server.backend import Backend, RecentCounts
from tests.support import owners, pg
from tests.support.clock import HandClock
from tests.support.web import client_of, open_site, register

# An onboarding that began an hour ago: its first stage is done, the second failed once and runs again.
ONBOARDING = """
    UPDATE farrier.nodes SET site = 'ams', bmc_address = 'https://bmc-1.example:8443', maas_id = 'abc123',
           status_entered_at = farrier.now() - interval '1 h';
    UPDATE farrier.node_onboardings
       SET mode = 'deploy', status = 'running', stage = 'resolve_power_credentials', attempt = 2,
           created_at = farrier.now() - interval '60 min', stage_entered_at = farrier.now() - interval '50 min';
    DELETE FROM farrier.history;
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, cause, reason, source, controller,
                                 epoch)
    SELECT 'node', n.id, c.version, c.layer, c.source, c.target, farrier.now() - c.ago * interval '1 min', 'stage: x',
           c.reason, 'x.py:1', gen_random_uuid(), 1
      FROM farrier.nodes n, (VALUES
           (1, 60, 'onboarding', NULL, 'pending', 'registered'), (2, 55, 'onboarding', 'pending', 'running', 'begins'),
           (2, 55, 'onboarding_stage', NULL, 'load_site_config', 'begins'),
           (3, 50, 'onboarding_stage', 'load_site_config', 'resolve_power_credentials', 'the site has its settings'),
           (4, 20, 'onboarding', 'running', 'failed_retryable', 'timeout: no answer from the BMC'),
           (5, 10, 'onboarding', 'failed_retryable', 'running', 'another attempt'))
           AS c (version, ago, layer, source, target, reason)
"""
AGENT = """
    INSERT INTO farrier.node_agents (node_id, key_hash, last_heartbeat_at, health)
    SELECT id, farrier.digest(name), farrier.now(), '{"ok": false, "alerts": [
               {"id": "gpu-3", "message": "78 uncorrectable ECC errors <b>", "blocks_scheduling": true},
               {"id": "fan", "message": "slow"}]}'
      FROM farrier.nodes
"""
REGION = """
    INSERT INTO farrier.maas_regions (name, site, url, state)
    VALUES ('ams', 'ams', 'https://maas.ams/MAAS', 'observing');
    INSERT INTO farrier.node_observations (node_id, site, system_id, state, since, read_at)
    SELECT id, 'ams', 'abc123', 'ready', farrier.now(), farrier.now() FROM farrier.nodes
"""
FLEET = """
    INSERT INTO farrier.nodes (name, status, management, status_entered_at, site, model, rack, labels)
    SELECT 'gpu-' || n, CASE WHEN n % 4 = 0 THEN 'offline' ELSE 'active' END, 'unmanaged',
           farrier.now() - ((n * 7) % 23) * interval '1 min', CASE WHEN n % 3 > 0 THEN 's' || n % 3 END, 'm' || n % 2,
           'r' || n / 8, jsonb_build_object('row', n % 5)
      FROM generate_series(10, 39) n
"""


def row(page: str, name: str) -> str:
    """The text of the table row that begins with this heading."""
    found = re.search(rf'<th scope="row">{name}\b.*?</tr>', page, re.DOTALL)
    assert found is not None, f"{name} is not in the timeline"
    return html.unescape(found[0])


def nodes_of(page: str) -> list[str]:
    """The nodes of an inventory, in the order of its rows."""
    return re.findall(r'<td class="name"><a href="/nodes/([^"]+)"', page)


async def without_guards(conn: Connection, statements: str) -> None:
    await conn.execute("SET session_replication_role = replica")
    await conn.execute(statements)


async def test_a_node_s_timeline_has_a_bar_for_each_attempt_and_wait_of_each_stage(
    web: httpx.AsyncClient, conn: Connection, db: pg.Database
) -> None:
    await db.freeze()
    await register(conn, "gpu-1")
    await without_guards(conn, ONBOARDING)
    page = (await web.get("/nodes/gpu-1")).text
    stage = row(page, "resolve_power_credentials")
    assert 'aria-label="failed for 30m, then failed_retryable for 10m, then running for 10m"' in stage
    assert "failed for 30m: timeout: no answer from the BMC" in stage
    assert re.search(r'data-label="took">50m', stage) and re.search(r'data-label="waited">10m', stage)
    assert re.search(r'data-label="attempts">2', stage)
    assert "the site has its settings" in row(page, "load_site_config")
    assert "to come" in row(page, "wait_for_deployed")
    assert "pending for 5m, then running for 35m" in row(page, "onboarding")
    bars = re.findall(r'<svg x="([\d.]+)%" y="2" width="([\d.]+)%"', stage)
    assert [(round(float(x)), round(float(width))) for x, width in bars] == [(17, 50), (67, 17), (83, 17)]


async def test_a_node_s_page_has_the_alerts_of_its_agent_and_links_to_its_machine(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await without_guards(conn, ONBOARDING + ";" + AGENT + ";" + REGION)
    page = (await web.get("/nodes/gpu-1")).text
    assert "78 uncorrectable ECC errors &lt;b&gt;" in page and "blocks scheduling" in page
    assert 'href="https://bmc-1.example:8443/"' in page
    assert 'href="https://maas.ams/MAAS/r/machine/abc123/summary"' in page
    assert 'href="/resources/maas_region/ams"' in page
    assert 'href="/history?resource=node%2F1"' in page


async def test_a_page_links_to_the_dashboard_of_its_resource_only_if_one_is_set(
    backend: Backend, web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await without_guards(conn, REGION)
    url = "https://grafana.example/d/x?var-node={name}&kind={kind}&at={site}"
    site = open_site(msgspec.structs.replace(backend, dashboards_url=url))
    async with client_of(site) as linked:
        for path, values in (
            ("/nodes/gpu-1", "var-node=gpu-1&amp;kind=node&amp;at=ams"),
            ("/resources/maas_region/ams", "var-node=ams&amp;kind=maas_region&amp;at=ams"),
        ):
            assert f'href="https://grafana.example/d/x?{values}"' in (await linked.get(path)).text
            assert ">dashboard</a>" not in (await web.get(path)).text


def test_a_value_in_the_url_of_a_dashboard_changes_nothing_else_of_it() -> None:
    given = {"kind": "crate", "name": "a&b/../{site}#", "site": ""}
    url = one.dashboard_url("https://g.example/d/{kind}?name={name}&site={site}", given)
    assert url == "https://g.example/d/crate?name=a%26b%2F..%2F%7Bsite%7D%23&site="


@pytest.mark.parametrize(
    "address", ["javascript://x", "user@bmc-1", "bmc-1/<script>", "https://bmc-1/redfish/v1/Systems/1"]
)
async def test_an_address_of_a_bmc_is_a_link_to_that_host_only(
    web: httpx.AsyncClient, conn: Connection, address: str
) -> None:
    await register(conn, "gpu-1")
    await conn.execute("SET session_replication_role = replica")
    await conn.execute("UPDATE farrier.nodes SET bmc_address = $1", address)
    page = (await web.get("/nodes/gpu-1")).text
    links = [link for link in re.findall(r'href="([^"]*)"', page) if not link.startswith(("/", "#"))]
    assert links in ([], ["https://bmc-1/"])


async def test_the_inventory_is_searched_by_parts_of_names_and_by_labels(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(conn, FLEET)
    for search, expected in (
        ("PU-1", set()),
        ("pu-1", {f"gpu-{n}" for n in range(10, 20)}),
        ("gpu-1[0-2]", {"gpu-10", "gpu-11", "gpu-12"}),
        ("gpu-1* row=3", {"gpu-13", "gpu-18"}),
        ("!row", set()),
    ):
        page = (await web.get("/", params={"q": search})).text
        assert set(nodes_of(page)) == expected, search
        assert f"{len(expected)} selected" in page
    wrong = await web.get("/", params={"q": "!=3"})
    assert wrong.status_code == 400 and "expected KEY, !KEY, KEY=VALUE" in html.unescape(wrong.text)


async def test_each_count_of_the_inventory_links_to_the_nodes_that_it_counts(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(conn, FLEET)
    page = (await web.get("/?site=s1")).text
    link, count = re.search(r'<a href="([^"]*status=offline)" class="tile"><b>(\d+)</b>', page).groups()  # type: ignore[union-attr]
    followed = (await web.get("/" + html.unescape(link))).text
    assert f"{count} selected" in followed
    assert len(set(nodes_of(followed))) == int(count) > 0


async def test_the_filters_count_the_nodes_of_each_value(db: pg.Database, conn: Connection) -> None:
    await without_guards(conn, FLEET)
    rows = [dict(each) for each in await conn.fetch("SELECT * FROM farrier.nodes")]
    chosen = {"status": "offline", "site": "s1", "rack": None}
    wanted = NodeFilter(statuses=("offline",), details={"site": ("s1",)}, labels=label_tests(("row!=1",)))
    rows = [each for each in rows if each["labels"] != '{"row": 1}']
    async with db.pool(size=1) as connections:
        counts = await PostgresQueries(connections).counts(wanted)

    def fitting(without: str) -> list[dict[str, object]]:
        others = {name: value for name, value in chosen.items() if value is not None and name != without}
        return [each for each in rows if all(each[name] == value for name, value in others.items())]

    assert counts.selected == len(fitting("")) > 0
    for name in ("status", "site", "model"):
        values = [str(each[name]) for each in fitting(name) if each[name] is not None]
        assert counts.values[name] == {value: values.count(value) for value in values}, name


async def test_counts_of_a_filter_are_read_again_after_five_seconds(db: pg.Database, conn: Connection) -> None:
    await without_guards(conn, FLEET)
    clock = HandClock()
    counts = RecentCounts(clock)
    async with db.pool(size=1) as connections:
        queries = PostgresQueries(connections)
        assert (await counts.of(queries, NodeFilter())).selected == 30
        await conn.execute("UPDATE farrier.nodes SET status = 'deleted' WHERE name = 'gpu-10'")
        clock.advance(timedelta(seconds=4.9))
        assert (await counts.of(queries, NodeFilter())).selected == 30
        assert (await counts.of(queries, NodeFilter(names=("gpu-1*",)))).selected == 9
        clock.advance(timedelta(seconds=0.1))
        assert (await counts.of(queries, NodeFilter())).selected == 29


@pytest.mark.parametrize("order", [order for order in ORDERS if order != BY_NAME])
async def test_pages_in_an_order_hold_each_node_once(db: pg.Database, conn: Connection, order: str) -> None:
    await without_guards(conn, FLEET)
    async with db.pool(size=1) as connections:
        queries = PostgresQueries(connections)
        whole = (await queries.ordered(NodeFilter(), order, limit=100)).page.rows
        key: SortKey | None = None
        found: list[str] = []
        while True:
            page = await queries.ordered(NodeFilter(), order, after=key, limit=4)
            found += [node.name for node in page.page.rows]
            key = page.following
            if key is None:
                break
    assert found == [node.name for node in whole] and len(set(found)) == 30
    if order in LISTED:
        values = [getattr(node, order) or "" for node in whole]
    elif order in ("oldest", "newest"):
        ages = [node.status_entered_at for node in whole]
        assert ages == sorted(ages, reverse=order == "newest")
        return
    else:
        values = [getattr(node, order) for node in whole]
    assert values == sorted(values)


async def test_a_sorted_inventory_leads_from_page_to_page(web: httpx.AsyncClient, conn: Connection) -> None:
    await without_guards(conn, FLEET.replace("39", "150"))
    first = (await web.get("/?sort=oldest&status=active")).text
    assert 'aria-sort="ascending"' in first
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await web.get("/" + html.unescape(following))).text
    names = [set(nodes_of(page)) for page in (first, second)]
    assert len(names[0]) == 100 and names[1] and not names[0] & names[1]
    assert (await web.get("/?sort=colour")).status_code == 400
    assert (await web.get("/?sort=oldest&after=x")).status_code == 400


async def test_the_inventory_begins_with_late_nodes_and_names_no_stage(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "node-1")
    await without_guards(conn, ";".join((ONBOARDING, FLEET)))
    page = (await web.get("/")).text
    assert nodes_of(page)[:2] == ["node-1", "gpu-10"]
    assert len(set(nodes_of(page))) == len(nodes_of(page)) == 31
    assert re.search(r'data-label="above" class="late">\d+m', page)
    assert not any(stage in page for stages in STAGES.values() for stage in stages)
    assert "resolve_power_credentials" in (await web.get("/nodes/node-1")).text


async def test_a_late_node_is_on_one_page_of_the_inventory(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, "gpu-999")
    await without_guards(conn, ";".join((ONBOARDING, FLEET.replace("39", "150"))))
    first = (await web.get("/")).text
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await web.get("/" + html.unescape(following))).text
    names = nodes_of(first) + nodes_of(second)
    assert names[0] == "gpu-999" and len(names) == len(set(names)) == 142


async def test_groups_have_counts_and_lead_to_their_nodes(web: httpx.AsyncClient, conn: Connection) -> None:
    await without_guards(conn, FLEET)
    for field in GROUPS:
        page = (await web.get("/", params={"group": field})).text
        rows = re.findall(r'<td><a href="([^"]+)">.*?</a>\s*<td data-label="nodes">(\d+)', page)
        assert rows, field
        for link, count in rows:
            assert len(nodes_of((await web.get("/" + html.unescape(link))).text)) == int(count), link
    offline = (await web.get("/", params={"group": "rack", "status": "offline", "site": "s2"})).text
    assert re.findall(r'<td><a href="[^"]+">(.*?)</a>\s*<td data-label="nodes">(\d+)', offline) == [
        ("s2 / r2", "1"),
        ("s2 / r4", "1"),
    ]
    assert (await web.get("/?group=colour")).status_code == 400


async def test_empty_fields_of_a_form_are_left_out_of_the_address(web: httpx.AsyncClient) -> None:
    answer = await web.get("/?q=&status=active&site=&label=")
    assert (answer.status_code, answer.headers["location"]) == (303, "?status=active")
    assert (await web.get("/history?kind=&since=1h&until=")).headers["location"] == "?since=1h"


async def test_history_is_filtered_and_leads_to_older_changes(web: httpx.AsyncClient, conn: Connection) -> None:
    await register(conn, *(f"gpu-{number:02}" for number in range(40)))
    first = (await web.get("/history")).text
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = (await web.get("/history" + html.unescape(older))).text
    assert len(re.findall('data-label="change"', first + second)) == 120
    assert "There are no older changes." in second
    narrowed = (await web.get("/history?resource=node/gpu-07&layer=status")).text
    assert re.findall('data-label="resource"><a href="([^"]+)">([^<]+)', narrowed) == [("/nodes/8", "gpu-07")]
    assert 'value="node/gpu-07"' in narrowed
    assert (await web.get("/history?since=yesterday")).status_code == 400
    assert (await web.get("/history?to=activ")).status_code == 400
    assert (await web.get("/history?resource=node/nosuch")).status_code == 404


async def test_controllers_are_listed_with_their_shards_and_their_state(
    web: httpx.AsyncClient, db: pg.Database
) -> None:
    assert "No controllers." in (await web.get("/controllers")).text
    async with db.pool(size=1) as connections:
        await owners.joined(connections, "rack-1", {"node": 2.0})
    page = (await web.get("/controllers")).text
    assert 'class="state alive"' in page and 'href="/resources/node">node</a> 64, lag 2s' in page


async def test_each_kind_is_listed_with_counts_that_link_to_its_resources(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await without_guards(conn, REGION.partition(";")[0])
    page = (await web.get("/resources")).text
    assert '<a href="/resources/maas_region?state=observing">1 observing</a>' in page
    for states, is_listed in (
        ("state=enrolling", True),
        ("state=unmanaged", True),
        ("state=unmanaged&state=enrolling&q=gpu", True),
        ("state=active", False),
        ("state=error", False),
        ("state=unmanaged&state=active", False),
    ):
        listed = (await web.get(f"/resources/node?{states}", follow_redirects=True)).text
        assert ('<a href="/nodes/gpu-1">gpu-1</a>' in listed) is is_listed, states
    for state in ("enrolling", "unmanaged"):
        assert f'<a href="/resources/node?state={state}">1 {state}</a>' in page
    listed = (await web.get("/resources/maas_region?state=observing&q=am")).text
    assert '<a href="/resources/maas_region/1">ams</a>' in listed
    assert "No resource matches." in (await web.get("/resources/maas_region?q=lon")).text


async def test_a_misspelt_state_is_refused_on_the_page_and_in_the_api(web: httpx.AsyncClient) -> None:
    for path in ("/resources/network_segment", "/api/v1/resources/network_segment"):
        refused = await web.get(path, params={"state": "redy"})
        assert refused.status_code == 400, path
        assert "no state is named 'redy'; did you mean 'ready'?" in html.unescape(refused.text)
    for path in ("/", "/api/v1/nodes"):
        refused = await web.get(path, params={"status": "Active"})
        assert refused.status_code == 400, path
        assert "status must be one of bootstrap_issued, " in html.unescape(refused.text)


async def test_a_filter_by_status_hides_late_resources_that_are_no_nodes(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(conn, REGION)
    await conn.execute("""
        UPDATE farrier.maas_regions SET state = 'failing', state_entered_at = farrier.now() - interval '1 h'
    """)
    for given, is_shown in (("", True), ("site=ams", True), ("status=active", False), ("failed=1", False)):
        page = (await web.get(f"/?{given}")).text
        assert ("maas_region ams</a> by" in page) is is_shown, given


async def test_nodes_is_a_path_of_the_inventory_and_an_unknown_path_refers_to_the_pages(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    assert "gpu-1" in (await web.get("/nodes")).text
    unknown = await web.get("/nodez")
    assert unknown.status_code == 404
    assert "the links above lead to all pages" in unknown.text and "openapi" not in unknown.text


@pytest.mark.parametrize(
    ("given", "resource"),
    [("resource=gpu-1", "node/gpu-1"), ("kind=maas_region&resource=ams", "maas_region/ams")],
)
async def test_a_resource_of_history_needs_no_kind_in_front_of_its_name(
    web: httpx.AsyncClient, conn: Connection, given: str, resource: str
) -> None:
    await register(conn, "gpu-1")
    await without_guards(conn, REGION)
    found = await web.get(f"/history?{given}", follow_redirects=True)
    assert found.status_code == 200
    assert found.url.params["resource"] == resource


async def test_a_time_of_a_region_is_written_like_every_other_time_of_its_page(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await without_guards(conn, REGION)
    page = (await web.get("/resources/maas_region/ams")).text
    (configured,) = re.findall(r"<dt>configured_at<dd>(.*)", page)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", configured)


async def test_the_pages_of_a_segment_and_a_partition_show_addresses_and_members(
    web: httpx.AsyncClient, conn: Connection
) -> None:
    await register(conn, "gpu-1")
    await conn.execute("SELECT farrier.set_pool('pkey', 5, 6)")
    made = {"network_segment": '{"site": "ams", "prefixes": ["10.0.0.0/24"]}', "ib_partition": "{}"}
    for kind, params in made.items():
        await conn.execute("SELECT farrier.resource_intent($1, 'lan', 'create', $2::text::jsonb)", kind, params)
    await without_guards(
        conn,
        "UPDATE farrier.network_segments SET state = 'ready'; SELECT farrier.allocate_address('lan', 'gpu-1');"
        " SELECT farrier.join_partition('lan', '0002c903000e0b72', 'gpu-1')",
    )
    segment = (await web.get("/resources/network_segment/lan")).text
    assert re.search(r'data-label="address">10\.0\.0\.\d+ of 10\.0\.0\.0/24', segment)
    partition = (await web.get("/resources/ib_partition/lan")).text
    assert 'data-label="port">0002c903000e0b72 (' in partition
    for page in (segment, partition):
        assert "<td>gpu-1" in page


async def test_pages_run_only_the_script_of_this_server(web: httpx.AsyncClient) -> None:
    page = await web.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
    assert re.findall(r"<script[^>]*>", page.text) == ['<script src="/live.js" defer>']
    assert not re.search(r"\son\w+=|style=", page.text)
    script = await web.get("/live.js")
    assert script.headers["content-type"].startswith("text/javascript")
