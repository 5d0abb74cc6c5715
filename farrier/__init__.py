"""farrier: a single-writer state controller for bare-metal GPU nodes, on PostgreSQL.

`docs/architecture.md` describes the packages and their allowed imports, and `docs/state-model.md` the state model.
"""

from __future__ import annotations

__version__ = "0.1.0"
