"""PgBouncer in transaction mode in front of a test's database."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from farrier.io.connections import system_account
from tests.support import programs

# Only a part of the socket's name: nothing listens on TCP, so no port has to be free.
PORT = 6432
CONFIGURATION = """
[databases]
{database} = host={host} port={port} user={user}{password}
[pgbouncer]
unix_socket_dir = {directory}
listen_port = {listen_port}
auth_type = any
pool_mode = transaction
default_pool_size = {sessions}
max_client_conn = {clients}
"""


@contextmanager
def before(dsn: str, *, clients: int = 100, sessions: int = 3) -> Iterator[str]:
    """Run PgBouncer in front of the database of `dsn`, with this number of sessions on the server and at most `clients`
    clients; yields the DSN that leads through PgBouncer. Skips the test if PgBouncer is not installed.

    It does not wait until PgBouncer listens: clients retry.
    """
    program = programs.program("pgbouncer")
    parts = urlsplit(dsn)
    host = parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
    user, database = parts.username or "postgres", parts.path.removeprefix("/")
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-pgbouncer-"))
    runner = system_account.for_server(Path(host))  # like PostgreSQL, it refuses to run as root
    runner.take(directory)
    file = directory / "pgbouncer.ini"
    file.write_text(
        CONFIGURATION.format(
            database=database,
            host=host,
            port=parts.port or 5432,
            user=user,
            password=f" password='{parts.password}'" if parts.password else "",
            directory=directory,
            listen_port=PORT,
            clients=clients,
            sessions=sessions,
        )
    )
    process = subprocess.Popen([program, "--quiet", str(file)], stderr=subprocess.DEVNULL, **runner.identity())
    try:
        yield f"postgresql://{user}@/{database}?host={directory}&port={PORT}"
    finally:
        process.terminate()
        process.wait(timeout=10)
        shutil.rmtree(directory)
