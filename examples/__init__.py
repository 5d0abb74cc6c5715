"""Example programs that operators can copy and change."""
