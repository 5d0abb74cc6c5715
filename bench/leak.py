"""A process that occupies more and more memory, until it has reached the limit of its address space and ends.

`python -m bench.leak serve …` runs the command `farrier serve …` with such a leak.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time

from farrier.cli import main

# The limit of the process, and its growth: it ends after about half a minute.
_LIMIT = 3 << 29
_STEP = 6 << 20
_PAUSE = 0.2


def leak() -> None:
    """Begin to occupy memory in a thread of this process. At the limit, the process ends as if it were killed."""
    resource.setrlimit(resource.RLIMIT_AS, (_LIMIT, _LIMIT))
    threading.Thread(target=_grow, daemon=True).start()


def _grow() -> None:
    kept = []
    try:
        while True:
            kept.append(os.urandom(1) * _STEP)
            time.sleep(_PAUSE)
    except MemoryError:
        os._exit(1)


if __name__ == "__main__":
    leak()
    sys.argv[0] = "farrier"
    main()
