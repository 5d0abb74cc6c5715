"""Every label value that metrics of this program may have, and the gauges whose values are computed instead of counted.

Called by the daemon. Values come from enums of the model and of the clients, so they are finite.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

import msgspec

from farrier import config as settings
from farrier.clock import MonotonicClock
from farrier.errors import ConfigError
from farrier.handlers.node.kind import FAILURES
from farrier.metrics import definitions, gauges
from farrier.metrics.definitions import KindWords, OwnMetric, ServiceWords, Vocabulary
from farrier.metrics.families import Definition
from farrier.metrics.fleet import FleetGauges, FleetWords
from farrier.metrics.sink import Constant, run_error_labels
from farrier.model import kinds, mapping, node_spec, stage_failures, stages
from farrier.model.bmc import BmcFailure, PowerState
from farrier.model.built_in import BUILT_IN
from farrier.model.census import Condition, Rules, Source
from farrier.model.failures import FailureClass
from farrier.model.kinds import KindSpec
from farrier.model.maas import MaasFailure
from farrier.model.measures import KindMetric
from farrier.model.status import NodeStatus
from farrier.model.ufm import UfmFailure
from farrier.model.workflow import LIVE, WorkflowKind
from farrier.services.bmc_exchange import Operation as BmcOperation
from farrier.services.maas_requests import Operation as MaasOperation
from farrier.services.ufm_requests import Operation as UfmOperation
from farrier.services.vault_answers import Operation as VaultOperation
from farrier.services.vault_answers import Result as VaultResult


def fleet_gauges(config: settings.Config) -> FleetGauges:
    """The gauges of the fleet, without values yet."""
    return FleetGauges(fleet_words(), census_rules(config), MonotonicClock())


def census_rules(config: settings.Config) -> Rules:
    """The limits and thresholds for counting the fleet."""
    return Rules(
        limits=config.sla,
        offline_after=config.node.offline_after,
        observation_ttl=config.node.observation_ttl,
        name_at_most=gauges.NODE_SERIES_AT_MOST if config.metrics.name_nodes else 0,
    )


def trust_gauge(config: settings.BmcConfig) -> Constant:
    """How many TLS policies trust any certificate."""
    return Constant(gauges.BMC_TLS_INSECURE, sum(trust.insecure for trust in (config, *config.hosts.values())))


def vocabulary(specs: Iterable[KindSpec] = BUILT_IN) -> Vocabulary:
    """Every label value that metrics of this program may have, if it runs these kinds besides nodes."""
    services = {
        "bmc": _service(BmcOperation, BmcFailure),
        "maas": _service(MaasOperation, MaasFailure),
        "ufm": _service(UfmOperation, UfmFailure),
        "vault": ServiceWords(operations=tuple(VaultOperation), results=tuple(VaultResult)),
    }
    nodes = msgspec.structs.replace(_kind_words(node_spec.SPEC), labels=_node_labels(), metrics=(_failures(),))
    words = {node_spec.SPEC.name: nodes, **{spec.name: _kind_words(spec) for spec in specs}}
    _check_names(words)
    return Vocabulary(kinds=words, services=services)


def _check_names(words: Mapping[str, KindWords]) -> None:
    """Raise ConfigError if two kinds have metrics of the same name: metric b_c of kind a, and metric c of kind a_b."""
    of: dict[str, str] = {}
    for kind, each in words.items():
        for own in each.metrics:
            if (other := of.setdefault(own.definition.series, kind)) != kind:
                raise ConfigError(
                    f"kinds {other} and {kind} have metrics that are both exposed as {own.definition.series}; "
                    "rename one of them"
                )


def _service(operations: Iterable[StrEnum], failures: Iterable[StrEnum]) -> ServiceWords:
    return ServiceWords(operations=tuple(map(str, operations)), results=("ok", "cancelled", *map(str, failures)))


def _kind_words(spec: KindSpec) -> KindWords:
    """The labels of a kind. A state with a substate counts as one state in metrics of transitions."""
    return KindWords(
        layers={layer.name: (layer.label, tuple(map(str, layer.states))) for layer in spec.every_layer},
        labels=tuple(map(kinds.label, spec.states)),
        metrics=tuple(_own_metric(spec, metric) for metric in spec.metrics),
    )


def _own_metric(spec: KindSpec, metric: KindMetric) -> OwnMetric:
    name = f"farrier_kind_{spec.name}_{metric.name}"
    definition = Definition(name, metric.help, tuple(metric.labels), metric.buckets)
    return OwnMetric(sample=metric.name, definition=definition, series=metric.series)


def _failures() -> OwnMetric:
    """The series of failures: for each stage the failures that may occur, and those of a workflow that has not
    begun."""
    series = tuple(
        (str(workflow), str(stage), str(failure))
        for workflow, by_stage in stage_failures.POSSIBLE.items()
        for stage, failures in by_stage.items()
        for failure in sorted(failures)
    )
    return OwnMetric(sample=FAILURES, definition=definitions.WORKFLOW_FAILURES, series=series)


def fleet_words() -> FleetWords:
    """The label values of the fleet's figures, except for states."""
    return FleetWords(
        errors=run_error_labels(),
        failures=tuple(map(str, FailureClass)),
        health=tuple(map(str, Condition)),
        power=tuple(map(str, PowerState)),
        sources=tuple(map(str, Source)),
        bmc_failures=tuple(map(str, BmcFailure)),
    )


def _node_labels() -> tuple[tuple[str, str], ...]:
    """Each status alone, and with each stage that a workflow may have in that status."""
    stages_of: dict[WorkflowKind, type[stages.OnboardingStage | stages.DecommissionStage]] = {
        WorkflowKind.ONBOARDING: stages.OnboardingStage,
        WorkflowKind.DECOMMISSION: stages.DecommissionStage,
    }
    at_work = {(row.kind, row.node_status) for row in mapping.ROWS if row.workflow_status in LIVE}
    return (
        *((status.value, "") for status in NodeStatus),
        *((status.value, stage.value) for kind, status in sorted(at_work) for stage in stages_of[kind]),
    )
