"""Tunes the garbage collector for a long-running loop.

The daemon and benchmarks call `settle` once after start-up. `settle` shortens the pauses of a full collection, in which
the process serves no request for about 50 ms.
"""

from __future__ import annotations

import gc

# The number of new containers after which Python collects the youngest generation. A loop uses a few thousand
# containers for some milliseconds. With Python's default of 700, collections would promote them while they are in use.
_YOUNG = 10_000


def settle() -> None:
    """Exclude all objects that are alive now, such as modules and handlers, from later collections. May be called
    again."""
    gc.collect()
    gc.freeze()
    _, middle, old = gc.get_threshold()
    gc.set_threshold(_YOUNG, middle, old)
