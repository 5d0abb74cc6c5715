"""Every gauge: its name, help text and labels. Dashboards and alert rules use these definitions.

Figures of the fleet are equal on all replicas, because they are counted in the database. Figures of a process are set
at the start of the process.
"""

from __future__ import annotations

from farrier.metrics.families import Gauge

_PLACE = ("kind", "state", "substate")

RESOURCES = Gauge(
    "farrier_resources",
    "Number of resources in each state, without deleted nodes, ended workflows and ended resources of other kinds. "
    "The substate of a running workflow is its stage.",
    _PLACE,
)
ABOVE_SLA = Gauge(
    "farrier_resources_above_sla",
    "Number of clocks above the limit that applies to their resource, not counting clocks that a pause stops. A pause "
    "does not stop a deletion or the work after a cancel. The clock of a stage runs on while a failed "
    "stage waits for its next attempt. The state end_to_end has the clocks of whole workflows.",
    _PLACE,
)
STATE_SLA = Gauge(
    "farrier_state_sla_seconds",
    "General limit of a state. Limits of sites and models are not included. A state without a limit has no series.",
    _PLACE,
)
OLDEST_IN_STATE = Gauge(
    "farrier_oldest_in_state_seconds",
    "Longest time for which a resource has been in the state; 0 if no resource is in it.",
    _PLACE,
)
RESOURCE_ABOVE_SLA = Gauge(
    "farrier_resource_above_sla_seconds",
    "How far a clock of a node or other resource is above its limit, not counting clocks that a pause stops. The "
    "metric has at most a hundred series: first, for each state, the five resources that are furthest above its limit; "
    "then, of the whole fleet, the resources that are furthest above any limit. The labels name and resource_kind are "
    "the NAME and KIND that farrier resource why expects. metrics.name_resources = false switches this metric off.",
    ("name", "resource_kind", *_PLACE),
)
MANUAL_INTERVENTION = Gauge(
    "farrier_manual_intervention_required",
    "Number of nodes whose workflow waits for an operator, by failure class. A paused node counts only during its "
    "deletion.",
    ("failure_class",),
)
SHARDS = Gauge(
    "farrier_shards",
    "Number of shards that each controller owns. The label controller contains the name and the short ID of "
    "the controller, as the command farrier controllers shows them.",
    ("kind", "controller"),
)
SHARDS_UNOWNED = Gauge("farrier_shards_unowned", "Number of shards that no controller owns.", ("kind",))
OLDEST_SWEEP = Gauge(
    "farrier_shard_oldest_sweep_seconds",
    "Longest time since a controller last completed all due runs of one of its shards; 0 if no shard has an owner.",
    ("kind",),
)
WAKES_PENDING = Gauge(
    "farrier_wakes_pending",
    "Number of wakes that no run has read yet, including wakes of kinds that no controller runs.",
)
INTENTS_PENDING = Gauge(
    "farrier_intents_pending",
    "Number of intents without an answer, for nodes and other resources.",
)
INTENTS_OLDEST_PENDING = Gauge(
    "farrier_intents_oldest_pending_seconds",
    "Age of the oldest intent without an answer. Intents that a pause delays do not count. If there is no such intent, "
    "the value is 0.",
)
RESOURCES_FAILING = Gauge(
    "farrier_resources_failing",
    "Number of resources whose runs of the last five minutes all ended in the same error, including paused resources.",
    ("kind", "error"),
)
RESOURCES_WAITING = Gauge(
    "farrier_resources_waiting",
    "Number of resources that wait, by what ends the wait: person (an operator has to act), confirmation (one reading "
    "contradicts the state, and a second reading has to confirm this), itself.",
    ("kind", "ends_by"),
)
NODES_BY_HEALTH = Gauge(
    "farrier_nodes_by_health",
    "Number of nodes by the last report of their agent: ok, alerting, blocked (not ok, or an alert blocks "
    "scheduling), silent (heartbeat older than node.offline_after), none (no agent has enrolled).",
    ("health",),
)
NODES_BY_ALERT = Gauge(
    "farrier_nodes_by_health_alert",
    "Number of nodes for each alert that agents report. Nodes with silent agents are not counted. A node with several "
    "alerts is counted once for each alert. Each of the fifty most frequent alerts has its own "
    "series, named by the first 64 characters of the alert's ID; alert=other counts all other alerts.",
    ("alert",),
)
NODES_BY_POWER = Gauge(
    "farrier_nodes_by_power",
    "Number of nodes by the last power reading; unknown for nodes that are not manageable.",
    ("power",),
)
NODES_SAME_MACHINE = Gauge(
    "farrier_nodes_same_machine",
    "Number of nodes that recorded the same machine as another node.",
)
BRAKES_HOLDING = Gauge(
    "farrier_brakes_holding",
    "Number of sites at which the brake holds failing nodes in service.",
)
RESOURCES_RESTORED = Gauge(
    "farrier_resources_restored",
    "Number of resources that are held since the database was restored from a backup.",
    ("kind",),
)
NODES_PAUSED = Gauge("farrier_nodes_paused", "Number of nodes that an operator paused.")
HEARTBEATS_STALE = Gauge(
    "farrier_heartbeats_stale",
    "Number of nodes in the states active, offline, quarantined or draining whose agent's last heartbeat is older "
    "than node.offline_after.",
)
DOORS = Gauge(
    "farrier_doors",
    "Number of doors, which are the servers of farrier serve, by kind (pages, agents) and state. A door is silent if "
    "it has not pulsed for 10 s; after an hour, it no longer counts.",
    ("kind", "state"),
)
DOORS_DEAD = Gauge(
    "farrier_doors_dead_seconds",
    "For how long the silence of agents that use doors has not counted, by the pulse that was lost: doors (no door of "
    "agents pulses), agents (doors pulse, but reach none of at least five expected agents); 0 while doors are alive.",
    ("pulse",),
)
AGENT_REACHED = Gauge(
    "farrier_agent_reached_seconds",
    "Time since an agent last reported by a door; 0 if no agent uses doors.",
)
OBSERVATIONS_STALE = Gauge(
    "farrier_observations_stale",
    "Number of nodes whose newest observation is older than node.observation_ttl. Source bmc: nodes whose BMC was "
    "verified and cannot be read now. Source maas: machines whose MAAS region is not failing. Source maas_failing: "
    "machines whose MAAS region is failing.",
    ("source",),
)
NODE_CONDITIONS = Gauge(
    "farrier_node_conditions",
    "Number of nodes with each condition, by SOURCE/ID; SOURCE/* counts the conditions whose IDs the source chooses, "
    "such as the alerts of agents and the holds of operators.",
    ("condition",),
)
CONDITION_NOTES_DROPPED = Gauge(
    "farrier_condition_notes_dropped",
    "Number of notes that ended because their source stated more conditions of one node than it may have, since the "
    "installation of farrier.",
    ("source",),
)
MONITOR_CONDITIONS = Gauge(
    "farrier_monitor_conditions",
    "Number of conditions that stand, by the monitor that stated them. State unknown: the monitor has not stated the "
    "condition again before its expiry.",
    ("monitor", "state"),
)
MONITOR_REFUSED = Gauge(
    "farrier_monitor_refused",
    "Number of conditions that a monitor reported and that were not taken, within the time for which a condition of "
    "the monitor stands; at most 100.",
    ("monitor",),
)
MAAS_STATUS_UNKNOWN = Gauge(
    "farrier_maas_status_unknown",
    "Number of nodes whose machine in MAAS is in a status that this release of farrier does not know.",
)
POWER_SYNC_FAILING = Gauge(
    "farrier_power_sync_failing",
    "Number of nodes whose BMC was verified and cannot be read now, by failure class.",
    ("failure",),
)
COLLECTED = Gauge(
    "farrier_fleet_collected_timestamp_seconds",
    "Time of the last count of the fleet, by the database's clock; 0 before the first count. While the database does "
    "not respond, the metrics keep the last figures.",
)
BUILD_INFO = Gauge("farrier_build_info", "Version of farrier, per process.", ("version", "python"))
BMC_TLS_INSECURE = Gauge(
    "farrier_bmc_tls_insecure",
    "Number of settings that disable the check of BMC certificates, per process: for all hosts, and for single hosts.",
)
BMC_TLS_CIPHERS = Gauge(
    "farrier_bmc_tls_other_ciphers",
    "Number of settings that permit other TLS ciphers for BMCs, per process: for all hosts, and for single hosts.",
)

NAMED_AT_MOST = 100
"""Largest number of series of the gauge that names resources. It is small enough for any Prometheus, even if all
resources are stuck."""
