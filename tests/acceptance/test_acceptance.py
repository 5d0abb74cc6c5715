"""The steps of the provider, done on a running site, meet what the table says of each check."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.acceptance import site as sites
from tests.acceptance import suite
from tests.acceptance.api import Object
from tests.acceptance.site import Site
from tests.acceptance.steps import STEPS
from tests.acceptance.table import CHECKS, Verdict
from tests.support.process import until

EMPTIES: tuple[Object, ...] = ({}, {"success": True, "platform": "farrier"})


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """The site, in a directory whose sockets have short paths. The agent of one node has just become silent."""
    with tempfile.TemporaryDirectory(prefix="farrier-acceptance-") as name:
        async with sites.opened(Path(name)) as opened:
            opened.scene.agents.silent.add(sites.SILENT)
            yield opened


def test_an_empty_answer_meets_no_demand() -> None:
    met = [
        (check.id, empty)
        for check in CHECKS
        for empty in EMPTIES
        if check.demand is not None and not list(check.demand(empty))
    ]
    assert not met


def test_a_check_that_passes_names_its_step_and_its_demand() -> None:
    assert not [check.id for check in CHECKS if check.verdict is Verdict.PASS and not (check.step and check.demand)]
    assert {check.step for check in CHECKS if check.step} <= set(STEPS)
    assert len({check.id for check in CHECKS}) == len(CHECKS)


@pytest.mark.full
@pytest.mark.timeout(600)  # the fleet arrives in half a minute; one machine is installed again
async def test_each_answer_meets_the_demand_exactly_if_the_check_passes(site: Site) -> None:
    answers = {step: await site.do(step, *sites.target(step)) for step in STEPS}
    found = {check.id: list(check.demand(answers[check.step])) for check in CHECKS if check.demand is not None}
    passing = {check.id for check in CHECKS if check.verdict is Verdict.PASS}
    assert {id_: faults for id_, faults in found.items() if id_ in passing and faults} == {}
    assert [id_ for id_, faults in found.items() if id_ not in passing and not faults] == []
    of_machine = [answers[step]["instance_id"] for step, target in sites.TARGETS.items() if target == sites.MACHINE]
    assert len(set(of_machine)) == 1, of_machine
    assert answers["query_stable_ips"] == await site.do("query_stable_ips"), "it was installed again since then"


@pytest.mark.full
@pytest.mark.timeout(600)  # as above
async def test_an_agent_is_silent_while_its_machine_is_off(site: Site) -> None:
    async def is_off() -> bool:
        return site.scene.agents.is_silent(sites.MACHINE)

    async def is_on() -> bool:
        return not await is_off()

    for step, done in (("stop_instance", is_off), ("start_instance", is_on)):
        await site.do(step, *sites.target(step))
        await until(done)


@pytest.mark.full
@pytest.mark.timeout(600)  # as above
@pytest.mark.skipif(suite.checkout() is None, reason=f"{suite.CHECKOUT} names no checkout of the suite")
async def test_the_suite_itself_passes_the_checks_that_the_table_says_and_no_others(site: Site, tmp_path: Path) -> None:
    checkout = suite.checkout()
    assert checkout is not None
    results = await suite.results(checkout, site, tmp_path)
    wrong = [
        (check.id, check.verdict, results.get(check.name))
        for check in CHECKS
        if (results.get(check.name) == "passed") != (check.verdict is Verdict.PASS)
    ]
    assert not wrong, results
