"""farrier: a single-writer state controller for bare-metal GPU nodes, on PostgreSQL.

The packages and their allowed imports: `docs/architecture.md`. The state model: `docs/state-model.md`.
"""

from __future__ import annotations

__version__ = "0.1.0"
