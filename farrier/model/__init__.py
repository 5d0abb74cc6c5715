"""The pure model: facts and the time go in; states, edges, limits, answers and advice come out.

Every package of farrier imports this package. This package imports only the standard library, msgspec,
typing_extensions and `farrier.errors`. No function of the package reads a clock or does I/O; each receives the time as
`now`, and everything else as facts. From the tables in this package, farrier fills the tables of the model in the
database, and `tools` generates the tables and diagrams of the documentation.
"""

from __future__ import annotations
