"""The path of each mode through its stages."""

from __future__ import annotations

import pytest

from farrier.model.node import stages
from farrier.model.node.layers import DecommissionMode, Mode, OnboardingMode
from farrier.model.node.stages import DecommissionStage, OnboardingStage, Stage

MODES: tuple[Mode, ...] = (*OnboardingMode, *DecommissionMode)

SOFT_RESET = "disable_node force_release_allocations drain_node scrub_gpu validate_clean_node retire_gpuaas_node"
REIMAGE = """disable_node force_release_allocations drain_node cleanup_storage scrub_gpu validate_clean_node
    load_site_config release_maas_node retire_gpuaas_node"""
FULL = """disable_node force_release_allocations drain_node cleanup_storage scrub_gpu validate_clean_node
    load_site_config release_maas_node power_off_maas_node retire_gpuaas_node remove_gpuaas_node_record
    cleanup_secrets remove_maas_record"""
STORAGE = """disable_node drain_node cleanup_storage validate_clean_node retire_gpuaas_node
    remove_maas_record"""
DEPLOY = """load_site_config resolve_power_credentials create_or_find_in_maas commission_node wait_for_ready
    configure_storage apply_roce_phase2 ensure_pxe_interface_auto render_cloud_init deploy_via_maas
    wait_for_deployed ensure_hardware_sync_configured wait_for_hardware_sync_healthy
    wait_for_agent_enrollment"""
ADOPT = "load_site_config resolve_power_credentials create_or_find_in_maas wait_for_agent_enrollment"


def walk(mode: Mode, skip: frozenset[Stage] = frozenset()) -> list[str]:
    """The stages of a workflow when each succeeds in the first attempt."""
    stage = stages.first_stage(mode, skip=skip)
    passed: list[str] = []
    while stage is not None:
        passed.append(str(stage))
        stage = stages.next_stage(mode, stage, skip=skip)
    return passed


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (OnboardingMode.DEPLOY, DEPLOY),
        (OnboardingMode.ADOPT, ADOPT),
        (OnboardingMode.MANUAL, "wait_for_agent_enrollment"),
        (DecommissionMode.SOFT_RESET, SOFT_RESET),
        (DecommissionMode.REIMAGE, REIMAGE),
        (DecommissionMode.FULL_DECOMMISSION, FULL),
        (DecommissionMode.STORAGE_CLEANUP, STORAGE),
    ],
)
def test_a_mode_walks_its_stages_in_order(mode: Mode, expected: str) -> None:
    assert walk(mode) == expected.split()


@pytest.mark.parametrize("mode", MODES)
def test_skipped_stages_are_left_out_and_the_others_keep_their_order(mode: Mode) -> None:
    path = stages.PATHS[mode]
    skip = frozenset(path[::2])
    assert walk(mode, skip) == [str(stage) for stage in path if stage not in skip]
    assert walk(mode, frozenset(path)) == []


def test_a_stage_of_another_mode_is_a_bug_and_raises() -> None:
    with pytest.raises(ValueError, match="not in"):
        stages.next_stage(OnboardingMode.MANUAL, OnboardingStage.LOAD_SITE_CONFIG)


def test_every_stage_is_on_a_path_or_follows_a_failed_deployment() -> None:
    used = {stage for path in stages.PATHS.values() for stage in path} | stages.DETOUR
    assert used == set(OnboardingStage) | set(DecommissionStage)


def test_a_stage_by_policy_is_on_the_path_of_its_mode() -> None:
    for mode, optional in stages.BY_POLICY.items():
        assert optional <= set(stages.PATHS[mode])
