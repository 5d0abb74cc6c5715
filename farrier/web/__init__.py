"""HTTP: metrics, health, a JSON API and pages for operators.

Reads through `protocols.ServerQueries` and `protocols.ResourceQueries`, and submits intents through
`protocols.Requests`, so it does not depend on `io`. Listens from before the database is reached until after the drain,
so that a probe always gets a response.
"""
