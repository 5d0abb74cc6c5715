"""Compares job queues on PostgreSQL one after another, with work that resembles farrier's work."""
