"""Lists every label value that metrics may have, and the gauges whose values are computed instead of counted.

The daemon calls this module. Label values come from enums of the model and of the clients, so there is a finite number
of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from farrier import config as settings
from farrier import errors
from farrier.clock import MonotonicClock
from farrier.errors import ConfigError, FarrierError
from farrier.handlers.node.kind import FAILURES
from farrier.metrics import definitions, gauges
from farrier.metrics.definitions import KindWords, OwnMetric, Vocabulary
from farrier.metrics.families import Definition
from farrier.metrics.fleet import FleetGauges
from farrier.metrics.sink import Constant
from farrier.model.kinds.built_in import BUILT_IN
from farrier.model.kinds.measures import KindMetric
from farrier.model.kinds.spec import KindSpec
from farrier.model.maas import region
from farrier.model.maas.reading import MaasError
from farrier.model.machine.bmc import BmcError
from farrier.model.network import segment
from farrier.model.node import failures
from farrier.model.node import spec as node_spec
from farrier.model.partition import partition
from farrier.model.partition.ufm import UfmError
from farrier.model.views.census import Rules
from farrier.services.bmc import failure as bmc_failure
from farrier.services.bmc.exchange import BmcOperation
from farrier.services.maas import service
from farrier.services.maas.requests import MaasOperation
from farrier.services.ufm import service as ufm_service
from farrier.services.ufm.requests import UfmOperation
from farrier.wiring.results import NO_FAILURE, of_http, of_vault

_OF_ANY_RUN: tuple[type[FarrierError], ...] = (
    *(errors.UndecodableState, errors.IllegalEdge, errors.HandlerTimeout, errors.HandlerGarbage),
    *(errors.RefusedByModel, errors.RowsLocked, errors.InternalError),
)
"""Errors that may end a run of any kind."""

_OF_CALLS: Mapping[str, tuple[type[FarrierError], ...]] = {
    node_spec.SPEC.name: (BmcError, MaasError, errors.CredentialError),
    region.KIND: (MaasError, errors.CredentialError),
    segment.KIND: (),
    partition.KIND: (UfmError, errors.CredentialError),
}
"""Errors of the services that a built-in kind calls. Services of a kind of another package are not known here."""

_OF_ANY_CALL = (errors.ServiceError, errors.CredentialError)


def fleet_gauges(config: settings.Config) -> FleetGauges:
    """Return the gauges of the fleet, without values."""
    return FleetGauges(census_rules(config), MonotonicClock())


def census_rules(config: settings.Config) -> Rules:
    """Return the limits and thresholds for counting the fleet."""
    return Rules(
        limits=config.sla,
        offline_after=config.node.offline_after,
        observation_ttl=config.node.observation_ttl,
        name_at_most=gauges.NAMED_AT_MOST if config.metrics.name_resources else 0,
    )


def trust_gauges(config: settings.BmcConfig) -> tuple[Constant, Constant]:
    """Return the gauges of the exceptions from the TLS policy: of those that accept any certificate, and of those that
    use other ciphers."""
    trusts = (config, *config.hosts.values())
    return (
        Constant(gauges.BMC_TLS_INSECURE, sum(trust.insecure for trust in trusts)),
        Constant(gauges.BMC_TLS_CIPHERS, sum(bool(trust.ciphers) for trust in trusts)),
    )


def vocabulary(specs: Iterable[KindSpec] = BUILT_IN) -> Vocabulary:
    """Return every label value that metrics of this program may have, if it runs these kinds besides nodes."""
    nodes = msgspec.structs.replace(_kind_words(node_spec.SPEC), metrics=(_failures(),))
    words = {node_spec.SPEC.name: nodes, **{spec.name: _kind_words(spec) for spec in specs}}
    _check_names(words)
    return Vocabulary(kinds=words, services=_services())


def _services() -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the possible results of each operation, by service."""
    return {
        "bmc": dict.fromkeys(map(str, BmcOperation), (*NO_FAILURE, *map(str, bmc_failure.OF_A_REQUEST))),
        "maas": of_http(service.FAILURES, MaasOperation),
        "ufm": of_http(ufm_service.FAILURES, UfmOperation),
        "vault": of_vault(),
    }


def _check_names(words: Mapping[str, KindWords]) -> None:
    """Raise ConfigError if two kinds have metrics of one name, as b_c of kind a and c of kind a_b."""
    of: dict[str, str] = {}
    for kind, each in words.items():
        for own in each.metrics:
            if (other := of.setdefault(own.definition.series, kind)) != kind:
                raise ConfigError(
                    f"kinds {other} and {kind} have metrics that are both exposed as {own.definition.series}; "
                    "rename one of them"
                )


def _kind_words(spec: KindSpec) -> KindWords:
    """Return the label values of a kind."""
    calls = _OF_CALLS.get(spec.name, _OF_ANY_CALL)
    return KindWords(
        spec=spec,
        errors=tuple(error.label for error in (*_OF_ANY_RUN, *calls)),
        metrics=tuple(_own_metric(spec, metric) for metric in spec.metrics),
    )


def _own_metric(spec: KindSpec, metric: KindMetric) -> OwnMetric:
    name = f"farrier_kind_{spec.name}_{metric.name}"
    definition = Definition(name, metric.help, tuple(metric.labels), metric.buckets)
    return OwnMetric(sample=metric.name, definition=definition, series=metric.series)


def _failures() -> OwnMetric:
    """Return the label values of failures: by stage, and those of a workflow that has not begun."""
    series = tuple(
        (str(workflow), str(stage), str(failure))
        for workflow, by_stage in failures.POSSIBLE.items()
        for stage, failures in by_stage.items()
        for failure in sorted(failures)
    )
    return OwnMetric(sample=FAILURES, definition=definitions.WORKFLOW_FAILURES, series=series)
