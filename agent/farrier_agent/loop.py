"""The loop: collects, sends heartbeats, claims and performs tasks. It waits for nothing but the door's answer."""

from __future__ import annotations

import random
import select
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable

from farrier_agent import disks, gpu, links, system, tasks
from farrier_agent.client import Backoff, Door, RefusedError
from farrier_agent.conditions import NOTE, QUARANTINE, Condition, bounded, condition, dropped
from farrier_agent.host import AgentError, Config, Host, say
from farrier_agent.jobs import Job
from farrier_agent.state import State, digest, digest_of
from farrier_agent.xid import Xids

_LOG_EVERY = 5.0  # seconds between readings of the kernel's log; its ring holds thousands of records
_FIRST_READINGS = 15.0  # seconds that the first call waits for the first readings
_NOT_READ = 0.2  # seconds until the first readings are looked for again
_AT_ONCE = 2.0  # seconds between two heartbeats at least, however often conditions change
_RARELY = 300.0  # seconds until another try that needs a person: the token or the key is not accepted
_LEASE = 60.0  # seconds; renewed when a third has passed


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


COLLECTORS: Sequence[Collector] = (
    Collector("system", system.read, 30, 15),
    Collector("gpu", gpu.read, 60, 30, QUARANTINE),
    Collector("disks", disks.read, 300, 15),
    Collector("disk", disks.health, 600, 45, QUARANTINE, disks.names),
    Collector("links", links.read, 30, 15),
    Collector("metadata", system.metadata, 600, 30),
)


@dataclass
class _Slot:
    """The newest reading of a collector, and the process that reads."""

    collector: Collector
    due: float = 0.0
    job: Job | None = None
    reading: dict[str, Any] = field(default_factory=dict)
    wrong: list[Condition] = field(default_factory=list)


class Readings:
    """The collectors at work."""

    def __init__(self, host: Host, config: Config, collectors: Sequence[Collector] = COLLECTORS) -> None:
        self._host, self._config, self._collectors = host, config, collectors
        self._slots: dict[tuple[str, str], _Slot] = {}
        self._xids = Xids(host)
        self._log_due = 0.0
        if gpu.present(host):
            import pynvml  # noqa: F401 - once, and not in each process that reads
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
        for (name, target), collector in wanted.items():
            slot = self._slots.setdefault((name, target), _Slot(collector))
            if slot.job is None and now >= slot.due:
                limit = self._config.timeouts.get(name, collector.limit)
                call = partial(collector.read, self._host, self._config, *([target] if target else []))
                slot.job, slot.due = Job(call, limit), now + collector.every * random.uniform(0.9, 1.1)
        for (name, target), slot in self._slots.items():
            if slot.job is not None and slot.job.poll():
                self._take(slot, slot.job, f"{name} {target}".strip(), target)
        if now >= self._log_due:
            self._log_due = now + _LOG_EVERY
            self._xids.read()

    def wait(self, until: float) -> None:
        """Wait until something arrives or is due."""
        running = [slot.job for slot in self._slots.values() if slot.job is not None]
        due = min([until, self._log_due, *(slot.due for slot in self._slots.values() if slot.job is None)])
        pause = max(due - time.monotonic(), 0.01)
        select.select([job.fd for job in running if not job.at_end], [], [], min(pause, 1.0) if running else pause)

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for slot in self._slots.values():
            found.update(slot.reading.get("facts", {}))
        return found

    def conditions(self) -> list[Condition]:
        """Return all conditions: of collectors, of the kernel's log, and of other monitors."""
        serials = {str(card["slot"]): card["serial"] for card in self.facts().get("gpus", []) if card["serial"]}
        found = [*self._xids.conditions(serials), *dropped(self._host)]
        for slot in self._slots.values():
            found += [*slot.reading.get("conditions", []), *slot.wrong]
        return bounded(found)

    def _take(self, slot: _Slot, job: Job, what: str, target: str) -> None:
        """Take a result. A process that hangs keeps its slot, so it is not started again, until the kernel ends it."""
        slot.wrong = []
        if job.error is not None:
            said = f"{what}: {job.error}" + ("" if job.is_over else "; its process cannot be ended")
            effect = slot.collector.hung if job.timed_out else NOTE
            slot.wrong = [condition(f"agent/{slot.collector.name}", said, effect, target)]
        if job.is_over:
            slot.job, slot.reading = None, job.result or slot.reading


class Agent:
    """The agent of this machine."""

    def __init__(self, host: Host, collectors: Sequence[Collector] = COLLECTORS) -> None:
        self._host = host
        self._config = host.config()
        self._door = Door(host, self._config)
        self._state = State(host)
        self._readings = Readings(host, self._config, collectors)
        self._backoff = Backoff()
        self._key = self._state.key()
        self._is_enrolled = self._key is not None and bool(host.text("/var/lib/farrier-agent/enrolled"))
        self._talk_at = self._talked_at = self._renew_at = 0.0
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
            self._readings.wait(min(self._talk_at, self._renew_at if self._job else self._talk_at))
        self._door.close()

    def step(self) -> bool:
        """Do what is due. Return whether there is more to do."""
        now = time.monotonic()
        self._readings.step(now)
        self._work(now)
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
                self._report()
            elif self._is_enrolled:
                self._beat(now)
            else:
                self._enroll()
            self._backoff.reset()
        except RefusedError as error:
            self._talk_at = now + self._after(error)
        except AgentError as error:
            self._say(f"{error}; it will be tried again")
            self._talk_at = now + self._backoff.pause()

    def _after(self, error: RefusedError) -> float:
        """Return the seconds until the next call after a refusal."""
        self._say(str(error))
        if error.status not in (401, 403, 409):
            return self._backoff.pause(error.retry_after)
        self._stop_task("farrier does not accept the key of this machine at present")
        if error.status == 401 and self._is_enrolled:
            if not self._state.is_spent(self._host.config().token):
                self._is_enrolled, self._key = False, None
                return 0.0
            self._say("the key is not accepted, and config.json has no token that was not used: write one into it")
        return _RARELY * random.uniform(0.8, 1.2)

    def _enroll(self) -> None:
        """Enrol with the token of the configuration, which may have changed. Repeating a lost call succeeds."""
        token = self._host.config().token
        if not token:
            raise RefusedError(403, "config.json has no token; create one with `farrier node bootstrap`")
        if self._key is None:
            self._key = self._state.new_key()
        alive = system.liveness(self._host)
        answer = self._door.call("POST", "/agent/v1/enroll", {
            "token": token, "key_digest": digest(self._key), "identity": system.identity(self._host),
            "facts": self._readings.facts(), "version": alive["version"], "boot_id": alive["boot_id"],
        })  # fmt: skip
        self._state.spend(token)
        self._is_enrolled = True
        say(f"enrolled as node {answer.get('node')}")

    def _beat(self, now: float) -> None:
        found = self._readings.conditions()
        facts = self._readings.facts()
        alive, known = system.liveness(self._host), digest_of(facts)
        beat = {**alive, "conditions": found, "clock": time.time(), "facts_digest": known}
        answer = self._call("POST", "/agent/v1/heartbeat", beat)
        self._talked_at, self._sent = now, _kinds(found)
        self._talk_at = now + answer.get("interval", 30) * random.uniform(0.95, 1.0)
        if "facts" in answer.get("wants", []):
            self._call("PUT", "/agent/v1/facts", {"digest": known, "facts": facts})
        if "claim" in answer.get("wants", []) and not self._task:
            self._take_task(now)

    def _take_task(self, now: float) -> None:
        """Claim a task, and begin it. A lost answer is asked for again with the same key."""
        body = {"idempotency_key": self._claim, "types": tasks.types(self._config), "lease": _LEASE}
        task = self._call("POST", "/agent/v1/claim", body).get("task")
        self._claim = str(uuid.uuid4())
        if task is None:
            return
        say(f"begins task {task['id']} ({task['type']})")
        self._task, self._renew_at = task, now + _LEASE / 3
        config = self._host.config()
        self._job = Job(partial(tasks.perform, self._host, config, task["type"]), tasks.limit(config, task["type"]))

    def _work(self, now: float) -> None:
        """Renew the lease of the running task, and take its outcome."""
        if self._job is None:
            return
        if self._job.poll():
            result = self._job.result if self._job.error is None else tasks.outcome(False, self._job.error)
            say(f"ends task {self._task['id']} ({self._task['type']}): {result['result']}")
            self._job, self._finish = None, {"lease_token": self._task["lease_token"], **result}
            self._is_leaving = self._task["type"] == tasks.UNINSTALL and result["succeeded"]
            self._talk_at = now
        elif now >= self._renew_at:
            self._renew_at = now + _LEASE / 3
            try:
                body = {"lease_token": self._task["lease_token"], "lease": _LEASE}
                self._call("POST", f"/agent/v1/task/{self._task['id']}/renew", body)
            except RefusedError as error:
                if not error.is_passing:
                    self._stop_task(str(error))
            except AgentError as error:
                self._say(str(error))

    def _report(self) -> None:
        """Send the result of the task until the door has taken it, or says that it is too late."""
        try:
            self._call("POST", f"/agent/v1/task/{self._task['id']}/finish", self._finish or {})
        except RefusedError as error:
            if error.is_passing:
                raise
            self._say(str(error))
        self._finish, self._task = None, {}
        self._talk_at = 0.0

    def _stop_task(self, why: str) -> None:
        if self._job is not None:
            say(f"stops task {self._task['id']} ({self._task['type']}): {why}")
            self._job.kill()
        self._job, self._finish, self._task = None, None, {}

    def _call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._door.call(method, path, body, self._key or "")

    def _say(self, text: str) -> None:
        """Write a line, but not the same line again."""
        if text != self._said:
            self._said = text
            say(text)


def _kinds(found: list[Condition]) -> set[tuple[str, str | None, str]]:
    """Return what has to change so that the next heartbeat is sent at once; a changed message can wait."""
    return {(each["id"], each.get("target"), each["effect"]) for each in found}
