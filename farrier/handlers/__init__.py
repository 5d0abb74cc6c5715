"""The handlers of each kind: each takes a snapshot and the time, and returns an outcome, or a step that calls a
service."""
