"""The BMC of a node: takes snapshots and readings, and returns steps that log in, read or switch."""
