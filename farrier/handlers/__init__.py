"""The handlers of each kind of resource. A handler makes pure decisions over a snapshot, and its steps call outside
services."""
