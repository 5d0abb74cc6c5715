"""HTTP: metrics, health, a JSON API and pages for operators.

Reads through `protocols.ServerQueries` and `protocols.ResourceQueries`, and submits intents through
`protocols.Requests`, so it does not depend on `io`. The server listens before the daemon connects to the database, and
until the drain has ended, so that a probe always gets a response.
"""
