"""The machine of a node in MAAS: takes snapshots and readings of a region, and returns changes to request."""
