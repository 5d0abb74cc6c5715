"""PgBouncer in transaction mode in front of a test's database."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from farrier.io import account

CONFIGURATION = """
[databases]
{database} = host={host} dbname={database} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


@contextmanager
def before(dsn: str) -> Iterator[str]:
    """Run it before the database of an embedded server; gives the DSN that leads through it.

    It is not waited for: whoever connects tries until it listens.
    """
    parts = urlsplit(dsn)
    database, (host,) = parts.path.removeprefix("/"), parse_qs(parts.query)["host"]
    port = _free_port()
    directory = Path(tempfile.mkdtemp(prefix="farrier-test-pgbouncer-"))
    runner = account.for_server(directory / "absent")  # like PostgreSQL, it refuses to run as root
    runner.take(directory)
    file = directory / "pgbouncer.ini"
    file.write_text(CONFIGURATION.format(database=database, host=host, port=port))
    process = subprocess.Popen([program(), "--quiet", str(file)], stderr=subprocess.DEVNULL, **runner.identity())
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/{database}"
    finally:
        process.terminate()
        process.wait(timeout=10)
        shutil.rmtree(directory)


def program() -> str:
    """Where it is installed, or an empty string."""
    return shutil.which("pgbouncer", path="/usr/sbin:/usr/local/bin:/usr/bin") or ""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
