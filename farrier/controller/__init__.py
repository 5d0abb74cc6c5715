"""The generic loop: snapshots and wakes go in; decisions of handlers come out, committed, with their history.

The package imports only `protocols`, `model` and `config`, and knows no kind of resource.
"""
