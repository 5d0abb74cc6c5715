"""The storage of the built-in kinds other than nodes: their snapshots, and the sections that their SQL writers
accept."""

from __future__ import annotations

from farrier.io import statements
from farrier.io.kinds.rows import ResourceRows, by_type
from farrier.model.maas import region
from farrier.model.maas.region import MaasRegion, RegionWrite
from farrier.model.network import segment
from farrier.model.network.segment import NetworkSegment, SegmentWrite
from farrier.model.partition import partition
from farrier.model.partition.partition import IbPartition, PartitionWrite

REGION_ROWS: ResourceRows[MaasRegion, RegionWrite] = ResourceRows(
    region.SPEC,
    MaasRegion,
    columns=(
        "username",
        "identified_at",
        "cursor",
        "complete_at",
        "swept_at",
        "failure",
        "failures",
        "next_try_at",
        "unreadable",
        "since",
        "configured_at",
    ),
    load=statements.load("maas_region/load"),
    writer="farrier.write_maas_regions",
    section=by_type({region.Reading: "readings", region.NamedMachines: "named", region.MissedEvents: "unknown"}),
)
SEGMENT_ROWS: ResourceRows[NetworkSegment, SegmentWrite] = ResourceRows(
    segment.SPEC,
    NetworkSegment,
    columns=("mtu", "prefixes", "gateways", "drain_until", "delete_asked_at", "delete_request"),
    load=statements.load("network_segment/load"),
    writer="farrier.write_network_segments",
    section=by_type({segment.Closing: "closes", segment.Growing: "grows"}),
)
PARTITION_ROWS: ResourceRows[IbPartition, PartitionWrite] = ResourceRows(
    partition.SPEC,
    IbPartition,
    columns=(
        "mtu_limit",
        "rate_limit",
        "service_level",
        "claimed_at",
        "claimed_in",
        "asked_at",
        "absent_at",
        "draining",
        "fabric_name",
        "strangers",
    ),
    load=statements.load("ib_partition/load"),
    writer="farrier.write_ib_partitions",
    section=by_type({partition.Marked: "marks", partition.Left: "left"}),
)
