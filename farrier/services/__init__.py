"""Clients of the outside services: BMCs over Redfish, MAAS regions, UFM, and the stores of their credentials.

`wiring` builds them; handlers reach them through `farrier.protocols`. A client holds no database connection,
reports every request to a `ServiceObserver`, sets a deadline for each call, and puts no secret into a text.
"""

from __future__ import annotations
