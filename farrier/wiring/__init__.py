"""The composition root: takes the settings, and returns running parts that are connected through protocols.

Only this package, `daemon`, `server`, `children` and `cli` import several packages of the same level. `daemon`,
`server` and some commands call this package, and run the objects that it returns. This package opens everything as a
context, so everything is closed in reverse order, even if a later step fails.
"""

from __future__ import annotations

from farrier.wiring.applications import Application, Tasks, application
from farrier.wiring.bmc_tls import require_trust
from farrier.wiring.kinds import Extensions, extensions, installable, require_kinds, specs_of
from farrier.wiring.loops import Runtime, runtime
from farrier.wiring.secrets import credentials
from farrier.wiring.storage import (
    Database,
    backend,
    counter,
    database,
    known_schemas,
    located,
    persistently,
    prepare,
    schema_version,
)
from farrier.wiring.traces import tracing
from farrier.wiring.vocabulary import census_rules, fleet_gauges, trust_gauges, vocabulary

__all__ = [
    "Application",
    "Database",
    "Extensions",
    "Runtime",
    "Tasks",
    "application",
    "backend",
    "census_rules",
    "counter",
    "credentials",
    "database",
    "extensions",
    "fleet_gauges",
    "installable",
    "known_schemas",
    "located",
    "persistently",
    "prepare",
    "require_kinds",
    "require_trust",
    "runtime",
    "schema_version",
    "specs_of",
    "tracing",
    "trust_gauges",
    "vocabulary",
]
