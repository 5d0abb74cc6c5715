"""HTTP: requests of people, programs and agents go in; pages, JSON and metrics come out.

This package reads through `protocols.ServerQueries`, and submits intents through `protocols.Requests`, so it does not
depend on `io`. The server begins to listen before the daemon connects to the database, and stops after the drain has
ended, so that a probe always gets a response.
"""
