"""HTTP: metrics, health, a small JSON API and two views for operators.

Reads through `protocols.Queries` and submits intents through `protocols.Requests`, and depends on no other part of
farrier. Listens from before the database is reached until after the drain, so that a probe always gets a response.
"""
