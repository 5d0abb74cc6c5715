"""Job queues on PostgreSQL, measured on work that resembles farrier's, in turns with each other."""
