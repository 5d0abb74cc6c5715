"""The pure model: states, edges, limits, requests and outcomes as data.

Every package imports it; it imports nothing but the standard library, msgspec and `farrier.errors`. It holds no
clock and does no I/O: what depends on the time takes `now`, what depends on the world takes a fact. The
tables here are the one source of the database's tables, of the documentation and of the diagrams.
"""

from __future__ import annotations
