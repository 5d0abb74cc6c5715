"""Clients of external services: calls of steps go in; readings, results of changes or classified failures come out.

`wiring` builds the clients; handlers call them through `farrier.protocols`. A client holds no database connection,
reports every request to a `ServiceObserver`, sets a deadline for each call, and puts no secret into an error text or a
log.
"""

from __future__ import annotations
