"""The benchmark suite: `python -m bench`, `make bench`.

Every figure is taken on the real loop: processor, storage, node handler, metrics, over a PostgreSQL with fsync on. Each
is stated with its target and, where that means something, with its share of the floor: the same SQL statements driven
by a few lines that decide nothing. Nothing here is imported by farrier.
"""
