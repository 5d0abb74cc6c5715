"""Enqueues resources, and listens for the notifications of enqueued resources."""
