"""Runs another module on the last core only: `python -m bench.pinned MODULE …`.

What a benchmark attacks, and what attacks it, then leave the other cores to the controller, from their start on.
"""

from __future__ import annotations

import os
import runpy
import sys

if __name__ == "__main__":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-1:])
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
