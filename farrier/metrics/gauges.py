"""Every gauge: name, help, labels. Dashboards and alert rules build on these.

Figures of the fleet are equal on all replicas, because they are counted in the database; those of a process are set at
its start.
"""

from __future__ import annotations

from farrier.metrics.families import Gauge

_PLACE = ("kind", "state", "substate")

RESOURCES = Gauge(
    "farrier_resources",
    "Resources by state. Deleted nodes, ended workflows and ended resources of other kinds are not counted. A "
    "running workflow has its stage as substate.",
    _PLACE,
)
ABOVE_SLA = Gauge(
    "farrier_resources_above_sla",
    "Clocks above the limit of their own resource. Clocks that a pause stops are not counted; a pause does not "
    "stop a deletion or the work after a cancel. State end_to_end counts the clocks of whole workflows.",
    _PLACE,
)
STATE_SLA = Gauge(
    "farrier_state_sla_seconds",
    "General limit of a state, without those of single sites and models. A state without a limit has no series.",
    _PLACE,
)
OLDEST_IN_STATE = Gauge(
    "farrier_oldest_in_state_seconds",
    "How long the resource that has been in the state for longest has been in it; 0 without resources.",
    _PLACE,
)
NODE_ABOVE_SLA = Gauge(
    "farrier_node_above_sla_seconds",
    "How far a clock of a node is above its limit, without clocks that a pause stops. At most a hundred series: "
    "the five worst nodes of each state, then the worst of the fleet. metrics.name_nodes switches it off.",
    ("node", *_PLACE),
)
MANUAL_INTERVENTION = Gauge(
    "farrier_manual_intervention_required",
    "Nodes whose workflow waits for an operator, by failure class. Paused nodes are counted only during their "
    "deletion.",
    ("failure_class",),
)
SHARDS = Gauge(
    "farrier_shards",
    "Shards by the controller that owns them.",
    ("kind", "controller"),
)
SHARDS_UNOWNED = Gauge("farrier_shards_unowned", "Shards without a controller.", ("kind",))
OLDEST_SWEEP = Gauge(
    "farrier_shard_oldest_sweep_seconds",
    "Age of the oldest complete sweep of an owned shard, in which everything due was run. 0 without owned shards.",
    ("kind",),
)
WAKES_PENDING = Gauge(
    "farrier_wakes_pending",
    "Wakes that no run has read, including those of kinds that no controller runs.",
)
INTENTS_PENDING = Gauge(
    "farrier_intents_pending",
    "Intents without an answer, for nodes and other resources.",
)
INTENTS_OLDEST_PENDING = Gauge(
    "farrier_intents_oldest_pending_seconds",
    "Age of the oldest intent without an answer. Intents that a pause delays are not counted; 0 without intents.",
)
RESOURCES_FAILING = Gauge(
    "farrier_resources_failing",
    "Resources whose runs have ended in the same error for five minutes, including paused ones.",
    ("kind", "error"),
)
NODES_BY_HEALTH = Gauge(
    "farrier_nodes_by_health",
    "Nodes by the last report of their agent: ok, alerting, blocked (an alert blocks scheduling), silent "
    "(heartbeat older than node.offline_after), none (no agent has enrolled).",
    ("health",),
)
NODES_BY_ALERT = Gauge(
    "farrier_nodes_by_health_alert",
    "Nodes by reported alert, without silent agents; a node with several alerts counts several times. The fifty "
    "most frequent alerts have series of their own, with 64 characters of their ID; other counts nodes with any "
    "other alert.",
    ("alert",),
)
NODES_BY_POWER = Gauge(
    "farrier_nodes_by_power",
    "Nodes by the last power reading; unknown for nodes that are not manageable.",
    ("power",),
)
NODES_SAME_MACHINE = Gauge(
    "farrier_nodes_same_machine",
    "Nodes that recorded the same machine as another node.",
)
BRAKES_HOLDING = Gauge(
    "farrier_brakes_holding",
    "Sites whose brake keeps failing nodes in service.",
)
NODES_PAUSED = Gauge("farrier_nodes_paused", "Nodes paused by an operator.")
HEARTBEATS_STALE = Gauge(
    "farrier_heartbeats_stale",
    "Nodes that are active, offline, quarantined or draining, and whose agent's last heartbeat is older than "
    "node.offline_after.",
)
OBSERVATIONS_STALE = Gauge(
    "farrier_observations_stale",
    "Nodes whose newest observation is older than node.observation_ttl. bmc: manageable nodes whose power cannot "
    "be read; maas: machines in a region that farrier reads.",
    ("source",),
)
POWER_SYNC_FAILING = Gauge(
    "farrier_power_sync_failing",
    "Manageable nodes whose power cannot be read.",
    ("failure",),
)
COLLECTED = Gauge(
    "farrier_fleet_collected_timestamp_seconds",
    "When the fleet was last counted, by the database's clock; 0 before the first count. While the database does "
    "not respond, the last figures stay.",
)
BUILD_INFO = Gauge("farrier_build_info", "Version of farrier, per process.", ("version", "python"))
BMC_TLS_INSECURE = Gauge(
    "farrier_bmc_tls_insecure",
    "Settings that disable the check of BMC certificates, per process: the setting for all hosts, and those of single "
    "hosts.",
)

NODE_SERIES_AT_MOST = 100
"""Series of the one gauge that names nodes: enough to say who is stuck, few enough for any Prometheus when all are."""
