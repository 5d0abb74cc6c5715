"""Enqueues resources from Python (`Enqueuer`), and listens for notifications of wakes (`Listener`)."""
