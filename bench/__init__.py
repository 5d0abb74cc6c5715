"""The benchmark suite: `python -m bench`, `make bench`.

The benchmarks measure the real loop with its storage, node handler and metrics, on a PostgreSQL with fsync on. A figure
may have a target, and a share of its floor. The floor is the speed of a few lines of code that do the same work without
deciding anything. farrier imports nothing from this package.
"""
