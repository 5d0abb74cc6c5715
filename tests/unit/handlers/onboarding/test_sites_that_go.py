"""A site without a file or without a region, at each stage of an onboarding: the file may still come, so the stage only
waits."""

from __future__ import annotations

import pytest

from farrier.handlers.node.changes import Failed, Waiting
from farrier.model.node.failures import FailureClass
from farrier.model.node.layers import OnboardingMode
from farrier.model.node.stages import DETOUR, PATHS, OnboardingStage
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


@pytest.mark.parametrize("has_file", [False, True])
@pytest.mark.parametrize("stage", BEHIND_THE_FIRST)
async def test_a_stage_waits_for_the_region_of_its_site_without_a_deadline(
    stage: OnboardingStage, has_file: bool
) -> None:
    async with open_stand() as at:
        at.onboards(stage)
        at.use(maas=None)
        if not has_file:
            at.policy = type(at.policy)()
        settled = await at.settle()
        assert isinstance(settled, Waiting) and "waits for its file" in settled.reason
        assert not settled.timed, "only this replica may lack the file"


async def test_the_first_stage_fails_if_the_site_has_no_file() -> None:
    async with open_stand() as at:
        at.onboards(OnboardingStage.LOAD_SITE_CONFIG)
        at.policy = type(at.policy)()
        settled = await at.settle()
        assert isinstance(settled, Failed) and settled.failure is FailureClass.INVALID_CONFIG
