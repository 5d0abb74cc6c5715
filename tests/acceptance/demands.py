"""What each check of the suite demands of an answer, in this project's own words.

A demand yields the faults of an answer. A value that is empty, absent or of another type is a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from tests.acceptance.api import Object

Demand: TypeAlias = Callable[[Object], Iterator[str]]

_RETURNED = "in_use released sanitizing in_use"
_NOTHING = frozenset({"", "unknown", "none", "n/a"})


def texts(record: Object, *names: str) -> Iterator[str]:
    """Each of these fields is a text, and not one that stands for nothing."""
    for name in names:
        if not isinstance(record.get(name), str) or record[name].strip().lower() in _NOTHING:
            yield f"{name} is {record.get(name)!r}, not a text"


def counts(record: Object, *names: str) -> Iterator[str]:
    """Each of these fields is an integer, and not negative."""
    for name in names:
        if type(record.get(name)) is not int or record[name] < 0:
            yield f"{name} is {record.get(name)!r}, not a count"


def each(answer: Object, name: str, of_one: Demand) -> Iterator[str]:
    """The field is a list of at least one object, and each object meets a demand."""
    found = answer.get(name)
    if not isinstance(found, list) or not found:
        yield f"{name} is {found!r}, not a list of at least one"
        return
    for index, record in enumerate(found):
        yield from (f"{name}[{index}]: {fault}" for fault in of_one(record))


def unless(fault: str, is_met: object) -> Iterator[str]:
    """`is_met` is true, and not only like it."""
    if is_met is not True:
        yield fault


def tags(answer: Object) -> Iterator[str]:
    yield from texts(answer, "instance_id")
    yield from texts(answer.get("tags") or {}, "Name", "CreatedBy")


def image(answer: Object) -> Iterator[str]:
    yield from texts(answer, "instance_id", "image_id", "image_name")
    yield from unless("the machine does not run", answer.get("instance_state") == answer.get("state") == "running")


def stopped(answer: Object) -> Iterator[str]:
    yield from texts(answer, "instance_id")
    yield from unless("nothing was begun", answer.get("stop_initiated"))
    yield from unless(f"the state is {answer.get('state')}", answer.get("state") == "stopped")


def identified(answer: Object) -> Iterator[str]:
    """The caller compares the ID with the one from before."""
    yield from texts(answer, "instance_id")
    yield from unless(f"the state is {answer.get('state')}", answer.get("state") == "running")


def started(answer: Object) -> Iterator[str]:
    yield from identified(answer)
    yield from unless("nothing was begun", answer.get("start_initiated"))
    yield from unless("SSH was not seen", answer.get("ssh_ready"))


def rebooted(answer: Object) -> Iterator[str]:
    yield from identified(answer)
    for name in ("reboot_initiated", "reboot_confirmed", "ssh_ready"):
        yield from unless(f"{name} is {answer.get(name)!r}", answer.get(name))


def power_cycled(answer: Object) -> Iterator[str]:
    yield from identified(answer)
    for name in ("power_cycle_initiated", "power_was_off", "ssh_ready"):
        yield from unless(f"{name} is {answer.get(name)!r}", answer.get(name))


def ingested(answer: Object) -> Iterator[str]:
    yield from counts(answer, "expected_count", "matched_count")
    yield from unless("the manifest is empty", (answer.get("expected_count") or 0) > 0)
    yield from unless("machines are missing", answer.get("missing") == [])

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "machine_id")
        yield from unless(f"the status is {record.get('status')}", record.get("status") in ("Ready", "InUse"))
        yield from unless(f"the health is {record.get('health')}", record.get("health") == "healthy")

    yield from each(answer, "machines", of_one)


def governed(answer: Object) -> Iterator[str]:
    for name in ("delivered", "healthy", "reserved", "active"):
        yield from counts((answer.get("metrics") or {}).get(name) or {}, "nodes", "gpus")


def listed(answer: Object) -> Iterator[str]:
    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "node_id", "hardware_type", "account_id", "region")
        yield from counts(record, "gpu_count")
        yield from moments(record, "created_at")
        yield from unless("the health is not classified", record.get("health_state") in ("healthy", "unhealthy"))
        yield from unless(f"in_use is {record.get('in_use')!r}", isinstance(record.get("in_use"), bool))

    yield from each(answer, "nodes", of_one)
    yield from distinct(answer, "nodes", "node_id")


def discovered(answer: Object) -> Iterator[str]:
    yield from unless("the index was polled once", (answer.get("polls") or 0) >= 2)
    yield from unless("identifiers changed", answer.get("unstable_identifiers") == [])

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "resource_id")
        yield from unless("it is not discovered", record.get("discovered"))

    yield from each(answer, "resources", of_one)
    yield from distinct(answer, "resources", "resource_id")


def healthy(answer: Object) -> Iterator[str]:
    """Beyond the suite, which asks for a report without alerts: the report is recent, and it has GPUs."""

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "host_id")
        yield from counts(record, "observed_age_seconds")
        yield from unless("there is no report", record.get("health_present"))
        yield from unless(f"it has alerts: {record.get('alerts')}", record.get("alerts") == [])
        yield from unless("no source reported", bool(record.get("probe_ids")))
        gpus = (record.get("components") or {}).get("gpu") or {}
        yield from unless("no GPU was seen", bool(gpus.get("present")) and all(gpus.get("devices") or [None]))

    yield from each(answer, "hosts", of_one)


def grouped(answer: Object) -> Iterator[str]:
    yield from texts(answer, "aggregation_level")

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "name")
        yield from counts(record, "total", "healthy", "unhealthy")
        total = (record.get("healthy") or 0) + (record.get("unhealthy") or 0)
        yield from unless("the numbers do not add up", record.get("total") == total)
        status = "Degraded" if record.get("unhealthy") else "Healthy"
        yield from unless(f"the status is {record.get('status')}", record.get("status") == status)

    yield from each(answer, "groups", of_one)


def placed(answer: Object) -> Iterator[str]:
    yield from each(answer, "hosts", lambda record: texts(record, "host_id", "failure_domain"))


def addressed(answer: Object) -> Iterator[str]:
    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "host_id")
        yield from unless("it has no address", bool(record.get("primary_ip_addresses")))
        yield from unless("an address is empty", all(record.get("primary_ip_addresses") or [None]))

    yield from each(answer, "hosts", of_one)


def watched(answer: Object) -> Iterator[str]:
    def of_one(record: Object) -> Iterator[str]:
        yield from unless("the BMC reports nothing", record.get("oob_health_present"))
        for name in ("device", "network", "memory", "drive"):
            kind = (record.get("failure_categories") or {}).get(name) or {}
            yield from unless(f"a failure of {name} is not seen", kind.get("observable"))

    yield from each(answer, "hosts", of_one)


def numbered(answer: Object) -> Iterator[str]:
    def of_one(record: Object) -> Iterator[str]:
        for name in ("chassis", "baseboard", "cpu", "gpu", "nic"):
            component = (record.get("components") or {}).get(name) or {}
            found = component.get("identifiers") or []
            yield from unless(f"{name} has no identifier", bool(found) and all(found))

    yield from each(answer, "machines", of_one)


def attended(answer: Object) -> Iterator[str]:
    yield from unless("agents cannot be observed", answer.get("agents_observable"))

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "node_id", "agent_name")
        yield from unless("it does not run", record.get("running"))

    yield from each(answer, "agents", of_one)


def isolated(answer: Object) -> Iterator[str]:
    yield from each(answer, "partitions", lambda record: texts(record, "name", "partition_key", "tenant_id"))


def returned(answer: Object) -> Iterator[str]:
    done = answer.get("operation") or {}
    yield from texts(done, "machine_id", "maintenance_mode")
    yield from unless("it was not accepted", done.get("accepted"))


def rack_returned(answer: Object) -> Iterator[str]:
    done = answer.get("operation") or {}
    yield from texts(done, "rack_id")
    yield from unless("it was not accepted", done.get("accepted"))
    yield from unless("no machine was in it", bool(done.get("machine_ids")))


def replaced(answer: Object) -> Iterator[str]:
    done = answer.get("operation") or {}
    yield from texts(done, "machine_id")
    yield from unless("the node is in the pool", done.get("node_removed_from_pool"))


def erased(answer: Object) -> Iterator[str]:
    """Beyond the suite, which asks only for the course: a machine returned to service, and each disk has a result."""
    yield from _between_tenancies(answer, lambda evidence: _of_disks(evidence.get("devices") or []))


def cold(answer: Object) -> Iterator[str]:
    """As `erased`, for memory: the machine was seen without power."""

    def of(evidence: Object) -> Iterator[str]:
        yield from moments(evidence.get("power_cycle") or {}, "off_seen_at", "on_seen_at")

    yield from _between_tenancies(answer, of)


def cold_with_gpus(answer: Object) -> Iterator[str]:
    """As `cold`, for the machines with GPUs."""
    with_gpus = [record for record in answer.get("machines") or [] if record.get("has_gpu")]
    yield from cold({"machines": with_gpus})


def maintained(answer: Object) -> Iterator[str]:
    yield from unless("events cannot be queried", answer.get("events_queryable"))
    yield from each(answer, "events", lambda record: texts(record, "machine_id", "status", "message", "since"))


def retiring(answer: Object) -> Iterator[str]:
    yield from unless("notices cannot be queried", answer.get("notices_queryable"))
    yield from each(answer, "notices", lambda record: texts(record, "machine_id", "message", "retires_at"))


def repaired(answer: Object) -> Iterator[str]:
    yield from unless("repairs cannot be queried", answer.get("history_queryable"))
    with_entries = [record for record in answer.get("records") or [] if record.get("entries")]

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "machine_id")
        for entry in record["entries"]:
            yield from texts(entry, "status", "message", "updated_at")

    yield from each({"records": with_entries}, "records", of_one)


def notified(answer: Object) -> Iterator[str]:
    yield from unless("there is no channel", answer.get("notification_channel_observable"))
    yield from each(
        answer, "notifications", lambda record: texts(record, "machine_id", "type", "message", "notified_at")
    )


def _between_tenancies(answer: Object, of_evidence: Demand) -> Iterator[str]:
    """Every machine was cleaned between its times in service, and at least one has shown it."""

    def of_one(record: Object) -> Iterator[str]:
        yield from texts(record, "machine_id")
        yield from unless("it returned to service without cleaning", record.get("sanitized"))
        yield from unless("another tenant still has it", record.get("stale_tenant_binding") is False)

    yield from each(answer, "machines", of_one)
    shown = [
        record for record in answer.get("machines") or [] if _RETURNED in " ".join(record.get("transitions") or [])
    ]
    yield from each({"machines": shown}, "machines", lambda record: of_evidence(record.get("evidence") or {}))


def _of_disks(devices: list[Object]) -> Iterator[str]:
    def of_one(device: Object) -> Iterator[str]:
        yield from texts(device, "serial", "method")
        yield from unless("it was not erased", device.get("result") == "erased")
        yield from unless("no sample was read", (device.get("samples") or 0) > 0 and not device.get("bad_samples"))

    yield from each({"disks": [device for device in devices if device.get("kind") == "disk"]}, "disks", of_one)


def moments(record: Object, *names: str) -> Iterator[str]:
    """Each of these fields is a time of ISO 8601."""
    for name in names:
        try:
            datetime.fromisoformat(str(record.get(name)))
        except ValueError:
            yield f"{name} is {record.get(name)!r}, not a time"


def distinct(answer: Mapping[str, Any], name: str, key: str) -> Iterator[str]:
    """No two objects of the list have one key."""
    keys = [record.get(key) for record in answer.get(name) or []]
    yield from unless(f"{name}: {key} is not unique", len(set(keys)) == len(keys))
