"""Calls in processes of their own, so that a call that hangs delays nothing but itself."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Callable

from farrier_agent.host import AgentError, end_with_parent


class Job:
    """One call in a process of its own.

    The result comes through a pipe, which programs that the call starts inherit. After `limit` seconds the processes
    are killed. `is_over` becomes true only when all of them are gone, so a process that the kernel cannot end (state D)
    is never started twice, and nobody waits for it.
    """

    def __init__(self, call: Callable[[], Any], limit: float) -> None:
        self._ends_at = time.monotonic() + limit
        self.limit = self.seconds = limit
        self.result: Any = None
        self.error: str | None = None
        self.timed_out = self.at_end = False
        self._read, self._reaped, self._status = b"", 0, 0
        self.fd, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _child(call, writing)
        os.close(writing)

    @property
    def is_over(self) -> bool:
        return self.at_end and self._reaped != 0

    def poll(self) -> bool:
        """Take what has arrived, and kill the call if its time is over. Return whether the call has ended or hangs."""
        while not self.at_end and select.select([self.fd], [], [], 0)[0]:
            part = os.read(self.fd, 65536)
            self._read += part
            if not part:
                self.at_end = True
                os.close(self.fd)
        if not self._reaped:
            self._reaped, self._status = os.waitpid(self._pid, os.WNOHANG)
        if not self.is_over and time.monotonic() > self._ends_at:
            self.kill()
        elif self.is_over and self.error is None:
            try:
                self.result, self.error, self.seconds = json.loads(self._read)
            except ValueError:
                self.error = f"ended without a result, with status {self._status}"
        return self.is_over or self.timed_out

    def kill(self) -> None:
        """Kill the processes of the call, without waiting for their end."""
        self.timed_out = True
        self.error = f"did not answer within {self.limit:.0f} s"
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except OSError:
            pass  # it has ended


def finished(calls: list[tuple[Callable[[], Any], float]]) -> list[Job]:
    """Run the calls side by side, and return their jobs when each has ended or hangs."""
    jobs = [Job(call, limit) for call, limit in calls]
    while not all(job.poll() for job in jobs):
        select.select([], [], [], 0.05)
    return jobs


def _child(call: Callable[[], Any], writing: int) -> None:
    """Run the call in the child, which ends here."""
    result, said, began_at = None, None, time.monotonic()
    try:
        os.setsid()
        end_with_parent()
        os.closerange(3, writing)
        os.closerange(writing + 1, 1024)
        os.set_inheritable(writing, True)
        result = call()
    except BaseException as error:  # a fault of one collector must not end the agent
        said = str(error) if isinstance(error, AgentError) else f"{type(error).__name__}: {error}"
    try:
        with open(writing, "w", closefd=False) as pipe:
            json.dump([result, said, time.monotonic() - began_at], pipe)
    finally:
        os._exit(0)
