"""Monitors: their reports and Alertmanager's webhook go in; conditions of nodes come out."""
