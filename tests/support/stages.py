"""One node at one stage, on a simulated MAAS region: the base of the tests of stages.

A `Stand` has the real client on a region in memory whose clock stands still until `pass_time`. `once` makes one run of
the node's stage, with the external call that the stage asks for; `settle` repeats that until the stage has nothing more
to do at once, as the loop would. `observe` plays the region's observer. All results are those of the real stages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any

import msgspec
from typing_extensions import override

from farrier.config.sites import CleaningSite, CloudInitSite, MaasSite, Site
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageStep,
    Waiting,
    with_fields,
)
from farrier.handlers.node.workflow.stages import run_stage
from farrier.model.maas.reading import MaasError, MaasFailure
from farrier.model.machine.observation import MaasObservation
from farrier.model.node.layers import CleaningBy, Management, NodeStatus, OnboardingMode
from farrier.model.node.stages import DecommissionStage, OnboardingStage
from farrier.model.node.writes import Write
from farrier.protocols import MaasClient, Regions
from farrier.sim.maas import ADMIN, Region
from farrier.sim.maas.records import SetType
from tests.support.fake_bmc import FakeBmc
from tests.support.maas import World, state_of, world_with
from tests.support.nodes import NOW, Alone, Secrets, decommission, node, onboarding

MAC = "52:54:00:00:00:01"
SITE = Site(
    name="north",
    maas=MaasSite(url="http://maas.test/MAAS", key="env:MAAS_KEY"),
    cloud_init=CloudInitSite(template="#cloud-config\nhostname: {{ node.name }}\ntoken: {{ bootstrap_token }}\n"),
    # Tests of cleaning by the region set this themselves.
    cleaning=CleaningSite(by=CleaningBy.AGENT),
)
_MOST_RUNS = 50
SECOND = timedelta(seconds=1)


class OneRegion(Regions):
    """The region of one site, in which no caller waits for a turn. Other sites have no region."""

    def __init__(self, site: str, client: MaasClient) -> None:
        self._site = site
        self._client = client

    @override
    def client(self, site: str) -> MaasClient | None:
        return self._client if site == self._site else None

    @override
    @asynccontextmanager
    async def slot(self, site: str, caller: Hashable) -> AsyncIterator[MaasClient]:
        client = self.client(site)
        if client is None:
            raise MaasError(
                MaasFailure.UNREACHABLE, f"site {site} has no region in this controller's settings", operation="turn"
            )
        yield client


class Stand:
    """The node and its region, as described above. A test may set `node`, `now` and `policy`; `writes` collects the
    writes of all results."""

    def __init__(self, region: Region, world: World, site: Site) -> None:
        self.region = region
        self.world = world
        self.now: datetime = NOW
        self.policy = Policy(sites={site.name: site})
        self.secrets = Secrets()
        self.services = NodeServices(FakeBmc(), self.secrets, OneRegion(site.name, world.client), Alone())
        self.writes: list[Write] = []
        self.node = node(
            NodeStatus.ENROLLING,
            site=site.name,
            management=Management.MANAGEABLE,
            bmc_address="https://10.0.0.1",
            bmc_credential="env:BMC",
            macs=(MAC,),
        )

    @property
    def site(self) -> Site:
        (site,) = self.policy.sites.values()
        return site

    def use(self, **tables: Any) -> None:
        """Change tables of the site."""
        site = msgspec.structs.replace(self.site, **tables)
        self.policy = msgspec.structs.replace(self.policy, sites={site.name: site})

    def onboards(self, stage: OnboardingStage, **fields: Any) -> None:
        """Put the node at this stage of an onboarding in mode `deploy`, just now."""
        given = {"mode": OnboardingMode.DEPLOY, "stage": stage, **self._just_begun()}
        self.node = with_fields(self.node, workflow=onboarding(**given | fields))

    def decommissions(self, stage: DecommissionStage, **fields: Any) -> None:
        """Put the node at this stage of a full decommission, retired, just now."""
        workflow = decommission(stage, **self._just_begun() | fields)
        self.node = with_fields(self.node, status=NodeStatus.RETIRED, workflow=workflow)

    def _just_begun(self) -> dict[str, Any]:
        return {"stage_entered_at": self.now, "status_entered_at": self.now, "mode_given_at": self.now}

    async def once(self) -> Settled:
        """Make one run of the node's stage, and store the node that it results in, as the commit would."""
        result = run_stage(self.node, self.now, self.policy)
        settled = await result.act(self.services) if isinstance(result, ServiceCall) else result
        match settled:
            case StageStep():
                self.node = settled.to
            case Done():
                self.node = settled.to or self.node
            case Waiting():
                pass
            case Failed():
                return settled
        self.writes += settled.writes
        return settled

    async def settle(self) -> Done | Failed | Waiting:
        """Run for as long as the stage requeues the node at once, or changes it without leaving the stage."""
        assert self.node.workflow is not None
        stage = self.node.workflow.stage
        for _ in range(_MOST_RUNS):
            settled = await self.once()
            now_at = settled.to.workflow.stage if isinstance(settled, StageStep) and settled.to.workflow else stage
            if now_at != stage:
                return Done(reason=f"went on to {now_at}")
            if isinstance(settled, Done | Failed):
                return settled
            if isinstance(settled, Waiting) and settled.requeue_after != timedelta(0):
                return settled
            # The next run reads the machine a moment later than this one did.
            self.world.clock.now += 1
        raise AssertionError(f"stage {stage} is not done after {_MOST_RUNS} runs: {settled}")

    def pass_time(self, by: timedelta) -> None:
        """Let time pass for the region, its client and the node."""
        self.region.advance(by)
        self.now += by
        self.world.clock.now += by.total_seconds()

    def observe(self, **fields: Any) -> MaasObservation:
        """Give the node the observation that the region's observer would make now."""
        assert self.node.maas_id is not None
        self.now += SECOND
        seen = observation(self.region, self.node.maas_id, self.now, self.node.maas)
        seen = msgspec.structs.replace(seen, **fields)
        self.node = with_fields(self.node, maas=seen)
        return seen


async def done(at: Stand) -> Done:
    """Run the stage, and assert that it is done."""
    settled = await at.settle()
    assert isinstance(settled, Done), settled
    return settled


async def failed(at: Stand) -> Failed:
    """Run the stage, and assert that it fails."""
    settled = await at.settle()
    assert isinstance(settled, Failed), settled
    return settled


def observation(
    region: Region, system_id: str, now: datetime, before: MaasObservation | None = None
) -> MaasObservation:
    """The observation of a machine as the region shows it."""
    machine = region.machines.get(system_id)
    if machine is None:
        shown: Mapping[str, Any] = {"state": "absent"}
    else:
        commissioned = machine.newest_set(SetType.COMMISSIONING)
        shown = {
            "state": state_of(machine.status.value),
            "status": machine.status.value,
            "status_name": machine.status.label,
            "hostname": machine.hostname,
            "owner": machine.owner,
            "ours": machine.owner == ADMIN.username,
            "locked": machine.locked,
            "power_state": machine.power_state,
            "error_description": machine.error_description,
            "commissioning_status_name": commissioned.status.label if commissioned is not None else "Unknown",
        }
    since = before.since if before is not None and before.state == shown["state"] else now
    seen = {"system_id": system_id, "since": since, "read_at": now, "fresh_at": now, **shown}
    return msgspec.convert(seen, MaasObservation, strict=False)


@asynccontextmanager
async def stand(region: Region | None = None, site: Site = SITE) -> AsyncIterator[Stand]:
    """A node that is not in MAAS yet, of a site with a region."""
    region = region or Region()
    async with world_with(region) as world:
        yield Stand(region, world, site)


def open_stand() -> AbstractAsyncContextManager[Stand]:
    """A stand with the default region and site, for fixtures."""
    return stand()
