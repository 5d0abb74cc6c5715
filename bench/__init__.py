"""The benchmark suite: `python -m bench`, `make bench`.

Every figure is taken on the real loop: processor, storage, node handler, metrics, over a PostgreSQL with fsync on. Each
has its target and, if it has a floor, its share of the floor: the speed of a few lines of code that do the same work
and decide nothing. Nothing here is imported by farrier.
"""
