"""Clients of the outside services that nodes depend on: BMCs over Redfish, and the secrets they need.

`wiring` builds them; handlers reach them through `farrier.protocols`. A client holds no database connection,
reports every request to a `ServiceObserver`, has a deadline for each call and lets no secret into a text.
"""

from __future__ import annotations
