"""The storage of the built-in kinds other than nodes: their snapshots, and the sections that their SQL writers
accept."""

from __future__ import annotations

from farrier.io import statements
from farrier.io.resource import ResourceRows, by_type
from farrier.model import ib_partition, maas_region, network_segment
from farrier.model.ib_partition import IbPartition, PartitionWrite
from farrier.model.maas_region import MaasRegion, RegionWrite
from farrier.model.network_segment import NetworkSegment, SegmentWrite

REGION_ROWS: ResourceRows[MaasRegion, RegionWrite] = ResourceRows(
    maas_region.SPEC,
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
    section=by_type({maas_region.Reading: "readings", maas_region.Named: "named", maas_region.Unknown: "unknown"}),
)
SEGMENT_ROWS: ResourceRows[NetworkSegment, SegmentWrite] = ResourceRows(
    network_segment.SPEC,
    NetworkSegment,
    columns=("mtu", "prefixes", "gateways", "drain_until", "delete_asked_at", "delete_request"),
    load=statements.load("network_segment/load"),
    writer="farrier.write_network_segments",
    section=by_type({network_segment.Closing: "closes", network_segment.Growing: "grows"}),
)
PARTITION_ROWS: ResourceRows[IbPartition, PartitionWrite] = ResourceRows(
    ib_partition.SPEC,
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
    section=by_type({ib_partition.Marked: "marks", ib_partition.Left: "left"}),
)
