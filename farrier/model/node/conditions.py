"""Conditions: facts about a node that stand until their source ends them, and what they do to the node's status.

Each condition has a source, an ID, an optional target (such as the serial number of a part), and one of two effects. A
note is only shown. A condition with the effect `quarantine` keeps the node out of service; `BY_STATUS` says how in each
status. The source requests an effect, and only a run of the node decides the effect that holds (`decided`), which is
never higher: rules of the settings may lower it, and defaults lower it where a source requests more than most sites
want. The database stores conditions in `node_conditions`. The agent's heartbeats write the conditions of source
`agent`, calls of agents write `identity/enrolment` and `identity/agent`, calls of monitors write those of
`monitor:NAME`, and commits of the node's runs write all others. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from farrier.model.node.layers import NodeStatus as N


class Source(StrEnum):
    """Who states a condition. A monitor has the source `monitor:NAME` (`MONITOR`)."""

    AGENT = "agent"  # the alerts of the last report of the node's agent
    BMC = "bmc"  # readings of the node's BMC
    IDENTITY = "identity"  # comparisons of the recorded machine with the machine that responds
    OPERATOR = "operator"  # holds of operators; the ID is the key of the hold
    CLEANING = "cleaning"  # cleanings that were skipped, failed, or lack evidence
    REGION = "region"  # the state of the machine in MAAS, if it contradicts the node
    WORKFLOW = "workflow"  # workflows that stopped


MONITOR = "monitor:"
"""The beginning of the source of a monitor; its name follows."""

SILENCE = "silence"
"""The cause for which the brake of a site counts nodes without heartbeats. Any other cause is the source of a
condition; `bmc` also counts readings of power off, unless an intent switched the machine off. The brake counts each
cause on its own, and never counts operators."""

ENDS_WITH_A_WORKFLOW = frozenset({Source.REGION, Source.WORKFLOW})
"""Sources whose conditions end when the node is retired or when its onboarding is complete."""


class Effect(StrEnum):
    """What a condition does."""

    NOTE = "note"  # it is shown
    QUARANTINE = "quarantine"  # it keeps the node out of service


class Condition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A condition of a node. `requested` is the effect that its source requests, and `effect` is the effect that holds.
    `released` is set after an operator released the condition of a source that still states it. `since` is when the
    condition began, and `seen_at` is when its message or effect last changed; both are None until the condition is
    stored. After `expires_at`, the condition is unknown. `source` may be a source of a newer release."""

    source: str
    id: str
    target: str = ""
    message: str = ""
    requested: Effect
    effect: Effect = Effect.NOTE
    released: bool = False
    since: datetime | None = None
    seen_at: datetime | None = None
    expires_at: datetime | None = None

    def is_expired(self, now: datetime) -> bool:
        """Return whether the source has not stated the condition again in time, so that the condition is unknown."""
        return self.expires_at is not None and self.expires_at <= now

    @property
    def key(self) -> tuple[str, str, str]:
        """The key of the condition among those of its node."""
        return self.source, self.id, self.target

    @property
    def name(self) -> str:
        """The name by which `release` refers to the condition: the key of an operator's hold, otherwise
        SOURCE/ID[/TARGET]."""
        if self.source == Source.OPERATOR:
            return self.id
        return "/".join(part for part in self.key if part)

    @property
    def text(self) -> str:
        """The condition in words."""
        return f"{self.name}: {self.message}" if self.message else self.name


MOST_OF_SOURCE = 200
"""How many conditions one source may state of one node: a machine with 8 GPUs and 30 disks has about 100 parts. For
more, the oldest notes of the source end; a condition that requests quarantine never does."""
MOST_HOLDS = 100
"""How many holds a node may have. Each has a key that a person or a program chose."""
DEFAULT_KEY = "default"
"""The key of an operator's hold if the intent names none."""

# The IDs of the conditions that farrier defines.
NOT_OK = "not_ok"  # of the agent: `ok: false` without an alert that blocks scheduling
BMC_HEALTH = "health"  # of the BMC: the health Critical
ANOTHER_MACHINE = "another_machine"  # the BMC shows another machine than the recorded one
AGENT_ELSEWHERE = "agent_elsewhere"  # the agent runs on another machine than the one that the BMC or MAAS shows
ENROLMENT = "enrolment"  # a note: an enrolment on another machine was refused
AGENT_KEY = "agent"  # a note: two machines use the key of the node's agent
NOT_SCRUBBED = "not_scrubbed"  # a cleaning was skipped or cancelled
VALIDATION_FAILED = "validation_failed"  # the validation of a cleanup failed or was skipped
UNPROVEN = "unproven"  # a note: a cleaning stage (the target) ended without evidence, or with incomplete evidence
DISAGREEMENT = "disagreement"  # MAAS reports the machine in another state or with another owner
MACHINE_DELETED = "machine_deleted"  # MAAS no longer has the machine
ONBOARDING_FAILED = "onboarding_failed"  # an onboarding stopped after an unsafe failure
DRAIN_FAILED = "drain_failed"  # the drain of a decommission failed for good
DECOMMISSION_FAILED = "decommission_failed"  # a decommission failed before its drain was done
FROZEN = "frozen"  # an operator stopped a decommission before its drain was done

CRITICAL = "Critical"
"""The worst health that Redfish defines."""
ANY_ID = "*"
"""Stands for the IDs of a source whose IDs farrier does not define."""


class Known(msgspec.Struct, frozen=True):
    """A condition that farrier defines. The ID is `ANY_ID` for a source that may state any ID. The source `monitor`
    stands for every monitor."""

    source: str
    id: str

    @property
    def name(self) -> str:
        return f"{self.source}/{self.id}"

    @property
    def title(self) -> str:
        """The name in headings."""
        return self.source if self.id == ANY_ID else f"{self.source} {self.id}"


KNOWN: tuple[Known, ...] = (
    Known(Source.AGENT, ANY_ID),
    Known(Source.BMC, BMC_HEALTH),
    Known(Source.IDENTITY, ANOTHER_MACHINE),
    Known(Source.IDENTITY, AGENT_ELSEWHERE),
    Known(Source.IDENTITY, ENROLMENT),
    Known(Source.IDENTITY, AGENT_KEY),
    Known(Source.OPERATOR, ANY_ID),
    Known(Source.CLEANING, NOT_SCRUBBED),
    Known(Source.CLEANING, VALIDATION_FAILED),
    Known(Source.CLEANING, UNPROVEN),
    Known(Source.REGION, DISAGREEMENT),
    Known(Source.REGION, MACHINE_DELETED),
    Known(Source.WORKFLOW, ONBOARDING_FAILED),
    Known(Source.WORKFLOW, DRAIN_FAILED),
    Known(Source.WORKFLOW, DECOMMISSION_FAILED),
    Known(Source.WORKFLOW, FROZEN),
    Known("monitor", ANY_ID),
)
"""The conditions of this release, in the order of the documentation. `failures.CONDITION_ADVICE` has their advice."""

NAMES = tuple(known.name for known in KNOWN)
"""The names of the conditions of this release."""


def known_name(source: str, id_: str) -> str:
    """Return the name in `KNOWN` of a condition with this source and ID."""
    name = f"{source}/{id_}"
    return name if name in NAMES else f"{source.partition(':')[0]}/{ANY_ID}"


class Consequence(msgspec.Struct, frozen=True):
    """What a condition with the effect `quarantine` does to a node in one status: the status that the node enters, or
    None if the condition only stands."""

    to: N | None
    text: str


BY_STATUS: Mapping[N, Consequence] = {
    N.BOOTSTRAP_ISSUED: Consequence(None, "stands"),
    N.ENROLLING: Consequence(
        None, "stands, and the onboarding does not complete. Intent `quarantine` itself moves the node to `quarantined`"
    ),
    N.ACTIVE: Consequence(N.QUARANTINED, "the node enters `quarantined`"),
    N.OFFLINE: Consequence(N.QUARANTINED, "the node enters `quarantined`"),
    N.QUARANTINED: Consequence(None, "stands, and keeps the node in `quarantined`"),
    N.DRAINING: Consequence(None, "stands"),
    N.RETIRED: Consequence(None, "stands, and farrier rejects `reactivate`"),
    N.REMOVING: Consequence(None, "stands"),
    N.DELETED: Consequence(None, "ends with the node"),
}
"""What a condition with the effect `quarantine` does in each status."""


def stated(source: str, id_: str, message: str = "", requested: Effect = Effect.QUARANTINE) -> Condition:
    """Return a new condition. Its effect is the requested effect; the next run of the node decides whether it holds."""
    return Condition(source=source, id=id_, message=message, requested=requested, effect=requested)


def quarantining(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the conditions that keep the node out of service."""
    return tuple(each for each in conditions if each.effect is Effect.QUARANTINE)


def expired(conditions: Iterable[Condition], now: datetime) -> tuple[Condition, ...]:
    """Return the conditions that are unknown, because their source has not stated them again in time."""
    return tuple(each for each in conditions if each.is_expired(now))


def shown_notes(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return the conditions that are only shown, without those of the agent, which views list as alerts."""
    return tuple(each for each in conditions if each.effect is Effect.NOTE and each.source != Source.AGENT)


def edge(conditions: Iterable[Condition], status: N) -> N | None:
    """Return the status that a node with these conditions enters from `status`, or None if it stays."""
    return BY_STATUS[status].to if quarantining(conditions) else None


def find(conditions: Iterable[Condition], source: Source, id_: str) -> Condition | None:
    """Return the condition with this source and ID, for a source that states no targets."""
    return next((each for each in conditions if each.source == source and each.id == id_), None)


def added(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Return the conditions with a new one, which replaces the condition with the same key."""
    return (*(each for each in conditions if each.key != new.key), new)


def without(conditions: tuple[Condition, ...], source: Source, id_: str) -> tuple[Condition, ...]:
    """Return the conditions without those with this source and ID."""
    if find(conditions, source, id_) is None:
        return conditions
    return tuple(each for each in conditions if each.source != source or each.id != id_)


def has_source(conditions: Iterable[Condition], source: str) -> bool:
    """Return whether a condition of this source stands."""
    return any(each.source == source for each in conditions)


def without_source(conditions: tuple[Condition, ...], *sources: str) -> tuple[Condition, ...]:
    """Return the conditions without those of these sources; the same object if there are none."""
    kept = tuple(each for each in conditions if each.source not in sources)
    return conditions if len(kept) == len(conditions) else kept


def names(conditions: Iterable[Condition]) -> str:
    """Return the names of conditions, as `release` accepts them."""
    return ", ".join(each.name for each in conditions)


def in_words(conditions: Iterable[Condition]) -> str:
    """Describe the conditions that keep the node out of service."""
    return "; ".join(each.text for each in quarantining(conditions))


FIXED = frozenset({Source.OPERATOR, Source.WORKFLOW})
"""Sources whose conditions always have the requested effect: an operator requested it, or the table of workflows and
statuses requires it."""

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]


class ConditionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The highest effect of some conditions. Each pattern matches the whole text; * matches any characters."""

    source: Annotated[Pattern, Meta(description="The source, such as agent or monitor:dcgm.")]
    id: Annotated[Pattern, Meta(description="The ID, such as xid_63.")] = "*"
    site: Annotated[Pattern, Meta(description="The site of the node.")] = "*"
    model: Annotated[Pattern, Meta(description="The model of the node, as registered, or else as its BMC reports.")] = (
        "*"
    )
    effect: Annotated[Effect, Meta(description="note or quarantine.")]

    def __post_init__(self) -> None:
        fixed = [str(source) for source in sorted(FIXED) if fnmatchcase(source, self.source)]
        if fixed and self.effect is not Effect.QUARANTINE:
            raise ValueError(
                f"source = {self.source!r} matches {' and '.join(fixed)}, whose conditions no setting can lower; "
                "write a rule for each of the other sources"
            )
        if not self.source.startswith(MONITOR) and not any(fnmatchcase(source, self.source) for source in Source):
            raise ValueError(
                f"no source matches source = {self.source!r}; expected {', '.join(Source)} or {MONITOR}NAME"
            )

    def fits(self, condition: Condition, site: str | None, model: str | None) -> bool:
        """Return whether the rule applies to this condition of a node of this site and model."""
        return (
            fnmatchcase(condition.source, self.source)
            and fnmatchcase(condition.id, self.id)
            and fnmatchcase(site or "", self.site)
            and fnmatchcase(model or "", self.model)
        )


class DefaultEffect(msgspec.Struct, frozen=True):
    """A default that is lower than the requested effect, and the reason."""

    rule: ConditionRule
    why: str


DEFAULT_EFFECTS: tuple[DefaultEffect, ...] = (
    DefaultEffect(
        ConditionRule(source=Source.BMC, id=BMC_HEALTH, effect=Effect.NOTE),
        "vendors report Critical also for parts that do not disturb the work, such as a fan of a redundant pair",
    ),
)
"""The defaults that are lower than the requested effects. Any other condition has the requested effect."""


def decided(
    conditions: tuple[Condition, ...], rules: Iterable[ConditionRule], site: str | None, model: str | None
) -> tuple[Condition, ...]:
    """Return the conditions of a node with their effects; the same object if nothing changes."""
    effects = [_effect(each, rules, site, model) for each in conditions]
    if effects == [each.effect for each in conditions]:
        return conditions
    return tuple(replace(each, effect=effect) for each, effect in zip(conditions, effects, strict=True))


def _effect(condition: Condition, rules: Iterable[ConditionRule], site: str | None, model: str | None) -> Effect:
    """Return the effect: the requested effect, unless the condition was released, or the first rule that fits, or else
    a default, lowers it."""
    if condition.released or condition.requested is Effect.NOTE:
        return Effect.NOTE
    if condition.source in FIXED:
        return condition.requested
    every = (*rules, *(default.rule for default in DEFAULT_EFFECTS))
    return next((rule.effect for rule in every if rule.fits(condition, site, model)), condition.requested)
