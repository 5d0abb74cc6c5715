"""Schedulers that follow the fleet: docs/integrate/webhooks.md."""
