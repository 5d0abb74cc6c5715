"""The storage of kinds: takes runs of handlers, and returns snapshots and the results of commits."""
