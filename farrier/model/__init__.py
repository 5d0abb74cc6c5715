"""The pure model: states, edges, limits, intents and outcomes as data.

Every package imports it; it imports only the standard library, msgspec, typing_extensions and `farrier.errors`. It has
no clock and no I/O: functions take the time as `now` and the state of the world as facts. The tables here are the only
source of the database's tables, of the documentation and of the diagrams.
"""

from __future__ import annotations
