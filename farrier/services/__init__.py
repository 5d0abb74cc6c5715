"""Clients of external services: BMCs (over Redfish), MAAS regions, UFM, and the stores of credentials.

`wiring` builds the clients; handlers call them through `farrier.protocols`. A client holds no database connection,
reports every request to a `ServiceObserver`, sets a deadline for each call, and puts no secret into an error text or a
log.
"""

from __future__ import annotations
