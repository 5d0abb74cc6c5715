"""Compares job queues on PostgreSQL. They are measured one after another, with work that resembles farrier's work."""
