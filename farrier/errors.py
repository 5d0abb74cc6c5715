"""Every error that farrier raises on purpose, in one tree.

    FarrierError                    root; never raised itself
    ├── ConfigError                 a setting, flag or file is wrong; farrier started nothing
    ├── DatabaseUnreachable         no connection within the time allowed
    ├── SchemaError
    │   ├── SchemaMissing           the database has no farrier schema, or an older one
    │   ├── SchemaTooNew            the database was migrated by a newer farrier
    │   ├── SchemaUnrecorded        the schema has tables, but no record of its version
    │   ├── SchemaEdited            functions, views or triggers were edited by hand
    │   └── SchemaChanged           applied tables or an applied migration differ from this program's
    ├── RefusedByModel              the model, or the database on its behalf, refuses a request
    │   └── MalformedRequest        a request that is invalid in every state
    ├── HandlerError                one run of one resource failed; the next run may succeed
    │   ├── UndecodableState        a stored state that this program cannot read
    │   ├── IllegalEdge             a transition that the model does not have
    │   ├── RowsLocked              another transaction has locked the rows that the run writes
    │   ├── HandlerTimeout          a step took longer than its deadline or `max_handling_time`
    │   └── HandlerGarbage          the handler returned something that is not an outcome
    ├── LeaseLost                   the controller lost the right to act; the run committed nothing
    ├── HeldAfterRestore            the resource is held after a restore; the step sent nothing
    ├── ServiceError                an outside service failed; packages derive their own classes from it
    ├── CredentialError             a credential reference that cannot be resolved
    └── InternalError               a bug in farrier, or an unexpected exception

Each class has a `label` and a `fate`. The label is the value of the `error` label of metrics, so it never changes. The
fate says whether a later run may succeed; docs/reference/errors.md lists the fate of each class. A text names
what was expected, what was found and what to do. A text never contains a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import ClassVar

from typing_extensions import override


class ExitCode(IntEnum):
    """The exit codes of the process `farrier`. Scripts and systemd units depend on the numbers."""

    OK = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    DATABASE_UNREACHABLE = 4
    SCHEMA_TOO_NEW = 5


class Fate(StrEnum):
    """Whether a run may succeed after an error. The loop runs the resource again in any case."""

    RETRY = "retry"
    PERMANENT = "permanent"
    NEEDS_HUMAN = "needs_human"


class FarrierError(Exception):
    """Root of the tree. `except FarrierError` catches all errors that farrier raises on purpose, and no others."""

    label: ClassVar[str] = "farrier"
    fate: ClassVar[Fate] = Fate.RETRY
    exit_code: ClassVar[ExitCode] = ExitCode.FAILED


class ConfigError(FarrierError):
    """A setting or a flag is wrong, or a file named by one of them is wrong. Raised before farrier starts anything."""

    label = "config"
    fate = Fate.NEEDS_HUMAN
    exit_code = ExitCode.USAGE


class DatabaseUnreachable(FarrierError):
    """farrier has no usable connection to PostgreSQL.

    `where` is a DSN without its password.
    """

    label = "database_unreachable"
    exit_code = ExitCode.DATABASE_UNREACHABLE

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"cannot reach PostgreSQL at {where}: {reason}")


class SchemaError(FarrierError):
    """The schema in the database does not fit this program."""

    label = "schema"
    fate = Fate.NEEDS_HUMAN


class SchemaMissing(SchemaError):
    """The database lacks tables, functions, views or rights that this program needs."""

    label = "schema_missing"

    def __init__(self, *, found: int, needed: int) -> None:
        have = f"has schema version {found}" if found else "has no farrier schema"
        text = f"the database {have}, but this program requires {needed}"
        if found == needed:
            text = f"functions, views or rights in the database (version {found}) are from another version of farrier"
        super().__init__(f"{text}; run: farrier db migrate")


class SchemaTooNew(SchemaError):
    """A newer program migrated the database. This program refuses to use it, because it could corrupt newer data."""

    label = "schema_too_new"
    exit_code = ExitCode.SCHEMA_TOO_NEW

    def __init__(self, *, found: int, known: int, release: str) -> None:
        what = f"has schema version {found} of farrier {release}, but this program supports at most {known}"
        if found <= known:
            what = f"was migrated by farrier {release}, and this program is an older release"
        super().__init__(f"the database {what}; upgrade farrier")


class SchemaUnrecorded(SchemaError):
    """The schema has tables, but no record of its version: a dump was restored without data, or the schema is older
    than the first release.

    `directory` is the directory of an embedded server.
    """

    label = "schema_unrecorded"

    def __init__(self, *, directory: str = "") -> None:
        advice = (
            "restore a dump with data, or drop the schema (DROP SCHEMA farrier CASCADE) and run: farrier db migrate"
        )
        if directory:
            advice = f"remove the directory {directory}; the next start creates a new database there"
        super().__init__(
            "the schema farrier has tables but no record of its version: either a restore omitted the data, or a "
            f"version of farrier before the first release created the schema; {advice}"
        )


class SchemaEdited(SchemaError):
    """An operator edited or dropped functions, views or triggers of farrier in the database."""

    label = "schema_edited"

    def __init__(self, *, edited: Sequence[str]) -> None:
        super().__init__(
            f"edited or dropped by hand in the database: {', '.join(edited)}; to restore them, run: farrier db migrate"
        )


class SchemaChanged(SchemaError):
    """The program's definitions of tables, or a migration, differ from those applied to the database. To change
    tables, add a new migration."""

    label = "schema_changed"

    def __init__(self, *, version: int, name: str) -> None:
        super().__init__(
            f"version {version} of the schema ({name}) was applied to this database with different content than in "
            "this program; install the release that applied it, or add a migration for the change"
        )


NO_RIGHT = "42501"
"""PostgreSQL's code for a missing right."""


class RefusedByModel(FarrierError):
    """The state model does not allow the request; the text names what the model allows.

    `hint` names the alternative. `sqlstate` is the database's code for the error, empty if the database was not
    involved.
    """

    label = "refused_by_model"
    fate = Fate.PERMANENT
    exit_code = ExitCode.REFUSED

    def __init__(self, text: str, *, hint: str = "", sqlstate: str = "") -> None:
        super().__init__(f"{text} ({hint})" if hint else text)
        self.text = text
        self.hint = hint
        self.sqlstate = sqlstate

    @property
    def is_of_every_resource(self) -> bool:
        """Whether the same request would be refused for every other resource, too."""
        return self.sqlstate == NO_RIGHT


class MalformedRequest(RefusedByModel):
    """The request is invalid in every state of the node, such as an unknown action or a wrong parameter."""

    label = "malformed_request"
    exit_code = ExitCode.USAGE

    @property
    @override
    def is_of_every_resource(self) -> bool:
        return True


class HandlerError(FarrierError):
    """One run of a resource failed. The error is stored as the resource's outcome; other resources are not affected."""

    label = "handler"


class UndecodableState(HandlerError):
    """This program cannot read a stored state. A newer program may have written it."""

    label = "undecodable_state"
    fate = Fate.NEEDS_HUMAN

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"cannot decode {what}: {reason}")


class IllegalEdge(HandlerError):
    """A handler requested a transition that the model does not have. Nothing was written."""

    label = "illegal_edge"
    fate = Fate.NEEDS_HUMAN

    def __init__(self, *, kind: str, layer: str, source: str, target: str) -> None:
        super().__init__(f"{kind}: the model has no edge {source} -> {target} in layer {layer}; nothing was written")


class RowsLocked(HandlerError):
    """Another transaction has locked rows that the run writes. Nothing was written; the run is repeated."""

    label = "locked"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the run could not write, because another transaction has locked its rows ({reason}); end this "
            "transaction or its session"
        )


class HandlerTimeout(HandlerError):
    """A step took longer than its time limit and was cancelled."""

    label = "timeout"

    def __init__(self, step: str, limit: timedelta) -> None:
        super().__init__(
            f"step {step} took longer than {limit.total_seconds():g} s and was cancelled; check the service that it "
            "calls"
        )


class HandlerGarbage(HandlerError):
    """A handler returned something that is not an outcome."""

    label = "garbage"
    fate = Fate.NEEDS_HUMAN

    def __init__(self, returned: str) -> None:
        super().__init__(
            f"a handler must return an Outcome or a Step that the model allows; this one returned {returned}"
        )


class LeaseLost(FarrierError):
    """The controller lost the right to act on the resource. It cancelled the step and committed nothing."""

    label = "lease_lost"


class HeldAfterRestore(FarrierError):
    """A step of a resource that is held after a restore tried to change an outside service. Nothing was sent."""

    label = "held_after_restore"

    def __init__(self) -> None:
        super().__init__("the resource is held after the restore of a backup, so farrier sends no changes for it")


class ServiceError(FarrierError):
    """A call to an outside service failed. `__cause__` is the original error; `detail` contains no secrets."""

    label = "service"

    def __init__(self, *, service: str, operation: str, detail: str) -> None:
        super().__init__(f"{service}: {operation} failed: {detail}")
        self.operation = operation
        self.detail = detail


class CredentialError(FarrierError):
    """farrier cannot resolve a credential reference. The error names the reference, never the secret.

    `temporary`: the store of the secret is unavailable, so the same reference may resolve later without an edit.
    """

    label = "credential"
    fate = Fate.NEEDS_HUMAN

    def __init__(self, reference: str, reason: str, *, temporary: bool = False) -> None:
        super().__init__(f"credential {reference}: {reason}")
        self.reference = reference
        self.reason = reason
        self.temporary = temporary


class InternalError(FarrierError):
    """A bug in farrier, or an unexpected exception. The traceback goes to the log only."""

    label = "internal"
    fate = Fate.NEEDS_HUMAN
