"""Stage `load_site_config`: checks, before any change, that the site has a region that farrier's key may administer."""

from __future__ import annotations

import pytest

from farrier.handlers.node.changes import Policy, with_fields
from farrier.model.node.failures import FailureClass as F
from farrier.model.node.layers import Management, OnboardingMode
from farrier.model.node.stages import OnboardingStage as O
from farrier.sim.maas import OPERATOR, Broken, Fault
from tests.support.found_machines import fails, is_done, waits
from tests.support.stages import SITE, Stand

STAGE = O.LOAD_SITE_CONFIG


@pytest.fixture
def stand(stand: Stand) -> Stand:
    stand.onboards(STAGE)
    return stand


async def test_a_region_in_which_farriers_key_is_an_administrators_passes_the_stage(stand: Stand) -> None:
    assert "'admin', an administrator" in is_done(await stand.once()).reason
    assert stand.world.observed.operations == ["whoami"], "the check takes one small read"


async def test_a_second_run_of_the_stage_has_the_same_result(stand: Stand) -> None:
    assert is_done(await stand.once()).reason == is_done(await stand.once()).reason


@pytest.mark.parametrize("policy", [Policy(), Policy(sites={"south": SITE})])
async def test_a_missing_site_file_is_reported_with_the_setting_of_its_directory(stand: Stand, policy: Policy) -> None:
    stand.policy = policy
    fails(await stand.once(), F.INVALID_CONFIG, "site north", "no MAAS", "sites.directory")
    assert stand.world.observed.operations == []


async def test_a_site_without_maas_and_a_node_without_a_site_fail_the_stage(stand: Stand) -> None:
    stand.use(maas=None)
    fails(await stand.once(), F.INVALID_CONFIG, "site north", "no MAAS")
    stand.node = with_fields(stand.node, site=None)
    fails(await stand.once(), F.INVALID_CONFIG, "site (none)", "no MAAS")


async def test_a_key_of_a_user_who_is_not_an_administrator_is_reported_with_the_user(stand: Stand) -> None:
    stand.world.key = OPERATOR.key
    fails(await stand.once(), F.UPSTREAM_REFUSED, "'op'", "not an administrator")


async def test_the_wait_for_an_unavailable_region_has_no_time_limit(stand: Stand) -> None:
    stand.region.faults.add(Fault(status=503, headers={"Retry-After": "60"}))
    waiting = waits(await stand.once())
    assert not waiting.timed and waiting.requeue_after is not None
    is_done(await stand.once())


async def test_the_wait_for_a_valid_key_has_no_time_limit(stand: Stand) -> None:
    stand.world.key = "wrong:key:altogether"
    assert not waits(await stand.once()).timed


@pytest.mark.parametrize("broken", [Broken.GARBLE, Broken.TRUNCATE])
async def test_a_response_that_cannot_be_read_fails_the_attempt(stand: Stand, broken: Broken) -> None:
    stand.region.faults.add(Fault(path="*users/", broken=broken))
    fails(await stand.once(), F.UPSTREAM_ERROR)


async def test_the_stage_waits_for_a_verification_of_the_bmc(stand: Stand) -> None:
    """The verification has a deadline, and a region that does not respond would delay it."""
    stand.node = with_fields(stand.node, management=Management.VERIFYING)
    assert not waits(await stand.once()).timed
    assert stand.world.observed.operations == []


# --- adopting


async def test_an_adoption_outside_of_maas_needs_no_site(stand: Stand) -> None:
    stand.policy = Policy()
    stand.onboards(STAGE, mode=OnboardingMode.ADOPT)
    assert "not in MAAS" in is_done(await stand.once()).reason


async def test_an_adoption_of_a_machine_in_maas_needs_a_site_but_sends_no_request(stand: Stand) -> None:
    stand.node = with_fields(stand.node, maas_id="abc123")
    stand.onboards(STAGE, mode=OnboardingMode.ADOPT)
    is_done(await stand.once())
    assert stand.world.observed.operations == []
    stand.policy = Policy()
    fails(await stand.once(), F.INVALID_CONFIG, "abc123", "sites.directory")
