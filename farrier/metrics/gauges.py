"""Every gauge: name, help, labels. Dashboards and alert rules build on these.

Those of the fleet are the same on every replica, because `fleet` takes them from the database; those of a process say
what was told to it at its start.
"""

from __future__ import annotations

from farrier.metrics.families import Gauge

_PLACE = ("kind", "state", "substate")

RESOURCES = Gauge(
    "farrier_resources",
    "Resources by state; deleted nodes, ended workflows and what has ended of other kinds are none. A running "
    "workflow has its stage as substate.",
    _PLACE,
)
ABOVE_SLA = Gauge(
    "farrier_resources_above_sla",
    "Clocks above the limit that holds for their own node or resource; what a pause holds up is left "
    "out: not a deletion, and not what a cancel began. State end_to_end is the clock of a whole workflow.",
    _PLACE,
)
STATE_SLA = Gauge(
    "farrier_state_sla_seconds",
    "The limit where neither site nor model has one of its own. A state without a limit has no series.",
    _PLACE,
)
OLDEST_IN_STATE = Gauge(
    "farrier_oldest_in_state_seconds",
    "For how long the resource that entered the state first has been in it; 0 if none is.",
    _PLACE,
)
NODE_ABOVE_SLA = Gauge(
    "farrier_node_above_sla_seconds",
    "How far a node's clock is above its limit, without those that a pause holds up: of each state the five that are "
    "worst by the clock of that state, then the worst of the fleet, each by its worst clock; a hundred at most. "
    "metrics.name_nodes switches it off.",
    ("node", *_PLACE),
)
MANUAL_INTERVENTION = Gauge(
    "farrier_manual_intervention_required",
    "Nodes whose workflow waits for an operator, by what failed; paused nodes are left out unless they are "
    "being deleted.",
    ("failure_class",),
)
SHARDS = Gauge("farrier_shards", "Shards of resources by the controller that has them.", ("kind", "controller"))
SHARDS_UNOWNED = Gauge("farrier_shards_unowned", "Shards that no controller has.", ("kind",))
OLDEST_SWEEP = Gauge(
    "farrier_shard_oldest_sweep_seconds",
    "How long ago the shard that has waited the longest was last swept: all that was due of it was run. Of those that "
    "a controller has; 0 if there are none.",
    ("kind",),
)
WAKES_PENDING = Gauge(
    "farrier_wakes_pending", "Wakes that no run has seen yet, those of kinds that no controller runs included."
)
INTENTS_PENDING = Gauge(
    "farrier_intents_pending", "Intents without an answer, those for resources of other kinds with those for nodes."
)
INTENTS_OLDEST_PENDING = Gauge(
    "farrier_intents_oldest_pending_seconds",
    "Age of the oldest of them, without those that a pause holds up, which wait on purpose; 0 if there is none.",
)
RESOURCES_FAILING = Gauge(
    "farrier_resources_failing",
    "Resources whose runs have ended in the same error for five minutes; paused ones, too.",
    ("kind", "error"),
)
NODES_BY_HEALTH = Gauge(
    "farrier_nodes_by_health",
    "Nodes by what their agent last said: ok, alerting, blocked (an alert blocks scheduling), silent (heartbeat older "
    "than node.offline_after), none (no agent has enrolled).",
    ("health",),
)
NODES_BY_ALERT = Gauge(
    "farrier_nodes_by_health_alert",
    "Nodes by the alerts that their agents last reported, while those are heard; one node may have several. The fifty "
    "most frequent have their id, in 64 characters, and other is the nodes that have any of the rest.",
    ("alert",),
)
NODES_BY_POWER = Gauge(
    "farrier_nodes_by_power",
    "Nodes by the power that was last read; unknown for those that are not manageable.",
    ("power",),
)
NODES_SAME_MACHINE = Gauge(
    "farrier_nodes_same_machine", "Nodes that recorded a machine which another node recorded, too."
)
BRAKES_HOLDING = Gauge(
    "farrier_brakes_holding",
    "Sites whose brake keeps nodes in service that silence or drift would take out of it.",
)
NODES_PAUSED = Gauge("farrier_nodes_paused", "Nodes that an operator has paused.")
HEARTBEATS_STALE = Gauge(
    "farrier_heartbeats_stale",
    "Nodes that are active, offline, quarantined or draining, with an agent whose heartbeat is older than "
    "node.offline_after.",
)
OBSERVATIONS_STALE = Gauge(
    "farrier_observations_stale",
    "Nodes of which nothing newer than node.observation_ttl is known: bmc, manageable nodes whose power cannot be "
    "read; maas, machines in a region that is observed.",
    ("source",),
)
POWER_SYNC_FAILING = Gauge("farrier_power_sync_failing", "Manageable nodes whose power cannot be read.", ("failure",))
COLLECTED = Gauge(
    "farrier_fleet_collected_timestamp_seconds",
    "When the figures of the fleet were counted, by the database's clock; 0 before they were for the first time. While "
    "the database cannot be asked the last figures stay, and this says how old they are.",
)
BUILD_INFO = Gauge("farrier_build_info", "The version that runs; for each process.", ("version", "python"))
BMC_TLS_INSECURE = Gauge(
    "farrier_bmc_tls_insecure",
    "BMC certificates that are not checked, for each process: 1 for the setting of all hosts, 1 for each host's own.",
)

NODE_SERIES_AT_MOST = 100
"""Series of the one gauge that names nodes: enough to say who is stuck, few enough for any Prometheus when all are."""
