"""Wakes: takes notifications, and returns the resources that they name; enqueues resources for other programs."""
