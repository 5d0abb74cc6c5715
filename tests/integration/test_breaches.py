"""Resources above their limits over HTTP, when there are more of them than a response lists."""

from __future__ import annotations

from tests.integration.test_web import backend_on, client_of, open_site
from tests.support import pg


async def test_the_worst_thousand_nodes_are_listed_with_the_number_of_the_others(
    db: pg.Database,
) -> None:
    async with db.connect() as conn:
        await conn.execute("SET session_replication_role = replica")
        await conn.execute(
            """
            INSERT INTO farrier.nodes (name, status, management, status_entered_at)
            SELECT 'gpu-' || n, 'offline', 'unmanaged', farrier.now() - interval '1 h' - n * interval '1 min'
              FROM generate_series(1, 1003) n
            """
        )
    async with db.pool(size=1) as connections, client_of(open_site(backend_on(connections, db.dsn))) as web:
        told = (await web.get("/api/v1/breaches")).json()
        page = (await web.get("/")).text
    assert told["more_nodes"] == 3
    assert "gpu-1003" in page
    assert "983 more" in page
    assert [late["node"]["name"] for late in told["nodes"]] == [f"gpu-{n}" for n in range(1003, 3, -1)]
