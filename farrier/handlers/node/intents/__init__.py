"""Responses to intents: each takes a node and one intent, and returns a reply."""
