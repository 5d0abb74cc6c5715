"""What each kind of resource does: pure decisions over a snapshot, and the steps that need the outside world."""
