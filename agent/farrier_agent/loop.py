"""The loop: collects, sends heartbeats, claims and performs tasks. It waits for nothing but the door's answer."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import select
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable

from farrier_agent import disks, gpu, links, system, tasks
from farrier_agent.client import Backoff, Door, RefusedError
from farrier_agent.conditions import NOTE, QUARANTINE, Condition, bounded, condition, dropped
from farrier_agent.host import STATE, AgentError, Config, Host, say
from farrier_agent.jobs import Job
from farrier_agent.xid import Xids

_LOG_EVERY = 5.0  # seconds between readings of the kernel's log at most; its ring holds thousands of records
_JOBS_EVERY = 1.0  # seconds until a process is looked at whose time may be over
_FIRST_READINGS = 15.0  # seconds that the first call waits for the first readings
_NOT_READ = 0.2  # seconds until the first readings are looked for again
_AT_ONCE = 2.0  # seconds between two heartbeats at least, however often conditions change
_RARELY = 300.0  # seconds until another try that needs a person: the token or the key is not accepted
_LEASE = 120.0  # seconds; each heartbeat renews it, and after a failure the next call comes within 60 s


@dataclass(frozen=True)
class Collector:
    """What is read every `every` seconds, in a process of its own that is killed after `limit` seconds. If it hangs,
    the condition has the effect `hung`. Each of the `targets` is read in a process of its own."""

    name: str
    read: Callable[..., dict[str, Any]]
    every: float
    limit: float
    hung: str = NOTE
    targets: Callable[[Host], list[str]] = lambda _host: [""]


COLLECTORS = [
    Collector("system", system.read, 30, 15),
    Collector("gpu", gpu.read, 60, 30, QUARANTINE),
    Collector("disks", disks.read, 300, 15),
    Collector("disk", disks.health, 600, 45, QUARANTINE, disks.names),
    Collector("links", links.read, 30, 15),
    Collector("metadata", system.metadata, 600, 30),
]


@dataclass
class _Slot:
    """The newest reading of a collector, and the process that reads."""

    collector: Collector
    target: str
    due: float = 0.0
    job: Job | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    wrong: list[Condition] = field(default_factory=list)

    def step(self, host: Host, config: Config, now: float) -> None:
        """Start the reading if it is due, and take its result. A process that hangs keeps its slot, so it is not
        started again, until the kernel ends it."""
        name = self.collector.name
        if self.job is None and now >= self.due:
            call = partial(self.collector.read, host, config, *([self.target] if self.target else []))
            self.job = Job(call, config.timeouts.get(name, self.collector.limit))
            self.due = now + self.collector.every * random.uniform(0.9, 1.1)
        if self.job is None or not self.job.poll():
            return
        self.wrong = []
        if self.job.error is not None:
            said = f"{name} {self.target}".strip() + f": {self.job.error}"
            said += "" if self.job.is_over else "; its process cannot be ended"
            effect = self.collector.hung if self.job.timed_out else NOTE
            self.wrong = [condition(f"agent/{name}", said, effect, self.target)]
        if self.job.is_over:
            self.reading, self.job = self.job.result or self.reading, None


class Readings:
    """The collectors at work."""

    def __init__(self, host: Host, config: Config, collectors: list[Collector] = COLLECTORS) -> None:
        self._host, self._config, self._collectors = host, config, collectors
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._xids = Xids(host)
        self._began_at = time.monotonic()

    @property
    def are_first(self) -> bool:
        """Whether each collector has been read once, or has had enough time for it."""
        is_late = time.monotonic() - self._began_at > _FIRST_READINGS
        return is_late or all(slot.reading or slot.wrong for slot in self._slots.values())

    def step(self, now: float) -> None:
        """Start what is due, and take what has arrived."""
        wanted = {(each.name, target): each for each in self._collectors for target in each.targets(self._host)}
        self._slots = {key: slot for key, slot in self._slots.items() if key in wanted or slot.job}
        for key, collector in wanted.items():
            self._slots.setdefault(key, _Slot(collector, key[1]))
        for slot in self._slots.values():
            slot.step(self._host, self._config, now)
        self._xids.read()

    def wait(self, until: float) -> None:
        """Wait until something arrives or is due."""
        running = [slot.job for slot in self._slots.values() if slot.job is not None]
        due = min([until, *(slot.due for slot in self._slots.values() if slot.job is None)])
        pause = min(max(due - time.monotonic(), 0.01), _JOBS_EVERY if running else _LOG_EVERY)
        select.select([job.fd for job in running if not job.at_end], [], [], pause)

    def facts(self) -> dict[str, Any]:
        return {name: fact for slot in self._slots.values() for name, fact in slot.reading.get("facts", {}).items()}

    def conditions(self) -> list[Condition]:
        """Return all conditions: of collectors, of the kernel's log, and of other monitors."""
        serials = {str(card["slot"]): card["serial"] for card in self.facts().get("gpus", [])}
        found = [*self._xids.conditions(serials), *dropped(self._host)]
        for slot in self._slots.values():
            found += [*slot.reading.get("conditions", []), *slot.wrong]
        return bounded(found)


class Agent:
    """The agent of this machine."""

    def __init__(self, host: Host, collectors: list[Collector] = COLLECTORS) -> None:
        self._host, self._config = host, host.config()
        self._door = Door(host, self._config)
        self._readings = Readings(host, self._config, collectors)
        self._backoff = Backoff()
        self._door.key = host.text(f"{STATE}/key") if host.text(f"{STATE}/enrolled") else ""
        self._talk_at = self._talked_at = 0.0
        self._sent: object = None
        self._claim = str(uuid.uuid4())
        self._task: dict[str, Any] = {}
        self._job: Job | None = None
        self._finish: dict[str, Any] | None = None
        self._is_leaving = False
        self._said = ""

    def run(self) -> None:
        """Work until the agent is uninstalled."""
        while self.step():
            self._readings.wait(self._talk_at)
        self._door.close()

    def step(self) -> bool:
        """Do what is due. Return whether there is more to do."""
        now = time.monotonic()
        self._readings.step(now)
        if self._job is not None and self._job.poll():
            self._end(self._job)
            self._talk_at = now
        if self._sent is not None and _kinds(self._readings.conditions()) != self._sent:
            self._talk_at = min(self._talk_at, self._talked_at + _AT_ONCE)
        if now >= self._talk_at:
            self._talk(now)
        return not self._is_leaving or self._finish is not None

    def _talk(self, now: float) -> None:
        self._sent = None
        if not self._readings.are_first:
            self._talk_at = now + _NOT_READ
            return
        try:
            if self._finish is not None:
                self._door.call("POST", f"/agent/v1/task/{self._task['id']}/finish", self._finish)
                self._finish, self._task, self._talk_at = None, {}, now
            elif self._door.key:
                self._beat(now)
            else:
                self._enroll()
            self._backoff = Backoff()
        except AgentError as error:
            self._say(str(error))
            self._talk_at = now + (self._after(error) if isinstance(error, RefusedError) else self._backoff.pause())

    def _after(self, error: RefusedError) -> float:
        """Return the seconds until the next call after a refusal. What the door refuses for good is stopped."""
        needs_person = error.status in (401, 403, 409)
        if needs_person or error.status == 410 or (self._finish is not None and error.status < 429):
            if self._job is not None:
                say(f"stops task {self._task['id']} ({self._task['type']}): {error}")
                self._job.kill()
            self._job, self._finish, self._task = None, None, {}
        if not needs_person:
            return self._backoff.pause(error.retry_after)
        if error.status == 401 and self._door.key:
            token = self._host.config().token
            if token and self._host.text(f"{STATE}/enrolled") != _digest(token):
                self._door.key = ""
                return 0.0
            self._say("the key is not accepted, and config.json has no token that was not used: write one into it")
        return _RARELY * random.uniform(0.8, 1.2)

    def _enroll(self) -> None:
        """Enrol with the token of the configuration, which may have changed. Repeating a lost call succeeds."""
        token = self._host.config().token
        if not token:
            raise RefusedError(403, "config.json has no token; create one with `farrier node bootstrap`")
        if self._host.text(f"{STATE}/enrolled"):  # with a key that farrier does not know any more
            self._host.keep("key", "")
            self._host.keep("enrolled", "")
        key = self._host.text(f"{STATE}/key") or f"fak_{secrets.token_hex(32)}"
        self._host.keep("key", key)
        alive = system.liveness(self._host)
        answer = self._door.call("POST", "/agent/v1/enroll", {
            "token": token, "key_digest": _digest(key), "identity": system.identity(self._host),
            "facts": self._readings.facts(), "version": alive["version"], "boot_id": alive["boot_id"],
        })  # fmt: skip
        self._host.keep("enrolled", _digest(token))
        self._door.key = key
        say(f"enrolled as node {answer.get('node')}")

    def _beat(self, now: float) -> None:
        """Extend the lease of the running task, report, and do what the door wants."""
        if self._job is not None:
            lease = {"lease_token": self._task["lease_token"], "lease": _LEASE}
            self._door.call("POST", f"/agent/v1/task/{self._task['id']}/renew", lease)
        found, facts = self._readings.conditions(), self._readings.facts()
        known = _digest(json.dumps(facts, sort_keys=True))
        beat = {**system.liveness(self._host), "conditions": found, "clock": time.time(), "facts_digest": known}
        answer = self._door.call("POST", "/agent/v1/heartbeat", beat)
        self._talked_at, self._sent = now, _kinds(found)
        self._talk_at = now + answer.get("interval", 30) * random.uniform(0.95, 1.0)
        if "facts" in answer.get("wants", []):
            self._door.call("PUT", "/agent/v1/facts", {"digest": known, "facts": facts})
        if "claim" in answer.get("wants", []) and not self._task:
            self._begin()

    def _begin(self) -> None:
        """Claim a task, and begin it. A lost answer is asked for again with the same key."""
        config = self._host.config()
        body = {"idempotency_key": self._claim, "types": tasks.types(config), "lease": _LEASE}
        task = self._door.call("POST", "/agent/v1/claim", body).get("task")
        self._claim = str(uuid.uuid4())
        if task is not None:
            say(f"begins task {task['id']} ({task['type']})")
            call = partial(tasks.perform, self._host, config, task["type"])
            self._task, self._job = task, Job(call, tasks.limit(config, task["type"]))

    def _end(self, job: Job) -> None:
        result = job.result if job.error is None else tasks.outcome(False, job.error)
        say(f"ends task {self._task['id']} ({self._task['type']}): {result['result']}")
        self._job, self._finish = None, {"lease_token": self._task["lease_token"], **result}
        self._is_leaving = self._task["type"] == tasks.UNINSTALL and result["succeeded"]

    def _say(self, text: str) -> None:
        """Write a line, but not the same line again."""
        if text != self._said:
            self._said = text
            say(text)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _kinds(found: list[Condition]) -> set[tuple[str, str | None, str]]:
    """Return what has to change so that the next heartbeat is sent at once; a changed message can wait."""
    return {(each["id"], each.get("target"), each["effect"]) for each in found}
