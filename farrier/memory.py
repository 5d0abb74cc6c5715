"""Tunes the garbage collector for a long-running loop.

Called once by the daemon after start-up, and by benchmarks. It changes no behaviour, only pauses: a full collection
takes some 50 ms in which no request is answered.
"""

from __future__ import annotations

import gc

# Containers allocated and not freed before the youngest are looked at. A pass holds a few thousand for some
# milliseconds; with Python's 700 they would be walked over, and promoted, while they are in use.
_YOUNG = 10_000


def settle() -> None:
    """Leave what is alive now out of every later collection: modules, handlers, wiring. May be called again."""
    gc.collect()
    gc.freeze()
    _, middle, old = gc.get_threshold()
    gc.set_threshold(_YOUNG, middle, old)
