"""The web application over the database of a test, without a server."""

from __future__ import annotations

import httpx
from prometheus_client import CollectorRegistry

from farrier.io.calls.monitors import PostgresMonitorCalls
from farrier.io.calls.requests import PostgresRequests
from farrier.io.connections.pool import Connection, Pool
from farrier.io.queries.lists import PostgresQueries
from farrier.model.node.limits import Limits
from farrier.web.server.access import Access
from farrier.web.server.backend import Backend
from farrier.web.server.site import WebApplication

TOKEN = "s3kr1t"
# The tests use the newest version; one test is about requests without it.
DECLARED = {"Farrier-Api-Version": "2"}
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}


async def token() -> str:
    return TOKEN


def closed_site(access: Access | None = None) -> WebApplication:
    """A site that has not reached its database."""
    return WebApplication(CollectorRegistry(), unready_because=lambda: "waiting for the test", access=access)


def backend_on(connections: Pool, dsn: str, *, limits: Limits | None = None) -> Backend:
    queries, requests = PostgresQueries(connections), PostgresRequests(connections, dsn)
    return Backend(queries, requests, limits or Limits(), token, PostgresMonitorCalls(connections))


def open_site(backend: Backend, access: Access | None = None) -> WebApplication:
    site = closed_site(access)
    site.open(backend)
    return site


def client_of(site: WebApplication) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=site.app), base_url="http://localhost", headers=DECLARED)


async def register(conn: Connection, *names: str) -> None:
    await conn.execute("SELECT farrier.register_node(name, site => 'ams') FROM unnest($1::text[]) name", names)
