"""Decommission: its stages, one module for each, and how it ends (model §4, 000 §5).

`disable_node` takes the node to `draining`, `drain_node` to `retired`; all later stages run there, until
`remove_gpuaas_node_record` takes it to `removing`. The agent's tasks are issued in the commit that enters a state which
needs one, so a node is never left in it alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from farrier.handlers.node.decommission.cleanup_secrets import cleanup_secrets
from farrier.handlers.node.decommission.cleanup_storage import cleanup_storage
from farrier.handlers.node.decommission.completion import complete
from farrier.handlers.node.decommission.disable_node import disable_node
from farrier.handlers.node.decommission.drain_node import drain_node
from farrier.handlers.node.decommission.force_release_allocations import force_release_allocations
from farrier.handlers.node.decommission.load_site_config import load_site_config
from farrier.handlers.node.decommission.power_off_maas_node import power_off_maas_node
from farrier.handlers.node.decommission.release_maas_node import release_maas_node
from farrier.handlers.node.decommission.remove_gpuaas_node_record import remove_gpuaas_node_record
from farrier.handlers.node.decommission.remove_maas_record import remove_maas_record
from farrier.handlers.node.decommission.retire_gpuaas_node import retire_gpuaas_node
from farrier.handlers.node.decommission.scrub_gpu import scrub_gpu
from farrier.handlers.node.decommission.validate_clean_node import validate_clean_node
from farrier.handlers.node.moves import Stage
from farrier.model.stages import DecommissionStage as D

STAGES: Mapping[D, Stage] = {
    D.DISABLE_NODE: disable_node,
    D.FORCE_RELEASE_ALLOCATIONS: force_release_allocations,
    D.DRAIN_NODE: drain_node,
    D.CLEANUP_STORAGE: cleanup_storage,
    D.SCRUB_GPU: scrub_gpu,
    D.VALIDATE_CLEAN_NODE: validate_clean_node,
    D.LOAD_SITE_CONFIG: load_site_config,
    D.RELEASE_MAAS_NODE: release_maas_node,
    D.POWER_OFF_MAAS_NODE: power_off_maas_node,
    D.RETIRE_GPUAAS_NODE: retire_gpuaas_node,
    D.REMOVE_GPUAAS_NODE_RECORD: remove_gpuaas_node_record,
    D.CLEANUP_SECRETS: cleanup_secrets,
    D.REMOVE_MAAS_RECORD: remove_maas_record,
}

__all__ = ["STAGES", "complete"]
