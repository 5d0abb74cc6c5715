"""Intents: take actions with parameters as JSON or text, and return typed parameters or faults."""
