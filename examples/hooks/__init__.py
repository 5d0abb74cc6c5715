"""Schedulers that follow the fleet: docs/operating/hooks.md."""
