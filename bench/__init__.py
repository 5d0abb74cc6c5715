"""The benchmark suite, which `python -m bench` and `make bench` run.

The benchmarks measure the real loop with its storage, node handler and metrics, on a PostgreSQL with fsync on. A figure
may have a target, and may be a share of a floor. The floor is the speed of a few lines of code that do the same work
without making decisions. farrier imports nothing from this package.
"""
