"""The pure model: states, edges, limits, intents and outcomes as data.

Every package of farrier imports this package. This package imports only the standard library, msgspec,
typing_extensions and `farrier.errors`. No function of the package reads a clock or does I/O; each receives the time as
`now`, and everything else as facts. The tables of the database, of the documentation and of the diagrams are generated
from the tables in this package.
"""

from __future__ import annotations
