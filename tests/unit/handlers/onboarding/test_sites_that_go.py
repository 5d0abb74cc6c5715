"""A site without a file or without a region, at each stage: the file may still come, so the stage only waits."""

from __future__ import annotations

import pytest

from farrier.handlers.node.changes import Waiting, with_fields
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.snapshot import Memo
from farrier.model.node.stages import DETOUR, PATHS, DecommissionStage, OnboardingStage
from tests.support.stages import open_stand

_ANYWHERE = frozenset(
    {
        OnboardingStage.LOAD_SITE_CONFIG,
        OnboardingStage.RESOLVE_POWER_CREDENTIALS,
        OnboardingStage.WAIT_FOR_AGENT_ENROLLMENT,
    }
)
BEHIND_THE_FIRST = [
    stage
    for stage in OnboardingStage
    if stage in DETOUR or (stage in PATHS[OnboardingMode.DEPLOY] and stage not in _ANYWHERE)
]
DECOMMISSION = [
    DecommissionStage.RELEASE_MAAS_NODE,
    DecommissionStage.POWER_OFF_MAAS_NODE,
    DecommissionStage.REMOVE_MAAS_RECORD,
]


@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("stage", [*BEHIND_THE_FIRST, *DECOMMISSION])
async def test_a_stage_waits_for_the_region_of_its_site_without_a_deadline(
    stage: OnboardingStage | DecommissionStage, has_file: bool
) -> None:
    async with open_stand() as at:
        if isinstance(stage, OnboardingStage):
            at.onboards(stage)
        else:
            at.node = with_fields(at.node, maas_id="abc123")
            at.decommissions(stage, memo=Memo(released=True))
        at.use(maas=None)
        if not has_file:
            at.policy = type(at.policy)()
        settled = await at.settle()
        assert isinstance(settled, Waiting) and "waits for its file" in settled.reason
        assert not settled.timed, "only this replica may lack the file"
