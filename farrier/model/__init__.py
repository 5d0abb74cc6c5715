"""The pure model: states, edges, limits, intents and outcomes as data.

Every package of farrier imports this package. This package imports only the standard library, msgspec,
typing_extensions and `farrier.errors`. It reads no clock and does no I/O: a function receives the time as its parameter
`now`, and everything else as facts. The tables of the database, of the documentation and of the diagrams are generated
from the tables in this package.
"""

from __future__ import annotations
