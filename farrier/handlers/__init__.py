"""The handlers of each kind of resource: pure decisions over a snapshot, and steps that call outside services."""
