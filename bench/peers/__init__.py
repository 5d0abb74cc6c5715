"""Job queues on PostgreSQL, measured in turns with work that resembles farrier's work."""
