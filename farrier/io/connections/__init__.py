"""Connections: take a DSN or a directory, and return sessions, or errors in farrier's terms."""
