"""TLS contexts whose connections resume earlier sessions, which saves the check of the certificate.

`transport` makes one for each TLS policy. A BMC that does not keep connections gets a handshake for each read, and a
resumed session makes this handshake cheaper. A session is used only for the host for which the certificate was checked,
with the same policy, and for at most an hour after this check.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from datetime import timedelta
from typing import Any, NamedTuple

from typing_extensions import override

from farrier.protocols import Clock

CHECKED_FOR = timedelta(hours=1)
"""The age of a check of a certificate after which the certificate is checked again."""
MOST = 4096
"""The largest number of sessions that a process has for one policy. A session takes up to 38 KiB."""


class _Session(NamedTuple):
    session: ssl.SSLSession
    until: float


class _Connected(ssl.SSLObject):
    """TLS of one connection. The event loop has each certificate decoded, which nobody reads."""

    @override
    def getpeercert(self, binary_form: bool = False) -> Any:
        return super().getpeercert(binary_form=True) if binary_form else None


class ResumingContext(ssl.SSLContext):
    """A context of a client that offers the last session of a host to this host."""

    clock: Clock
    sessions: OrderedDict[str, _Session]

    @classmethod
    def at(cls, clock: Clock) -> ResumingContext:
        """Return a context without sessions."""
        context = cls(ssl.PROTOCOL_TLS_CLIENT)  # an SSLContext takes no other arguments
        context.clock, context.sessions, context.sslobject_class = clock, OrderedDict(), _Connected
        return context

    @override
    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        known = self.sessions.get(server_hostname) if isinstance(server_hostname, str) else None
        if known is not None and known.until > self.clock.monotonic():
            session = known.session
        return super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)

    def make_room(self, host: str) -> bool:
        """Return whether a new session of this host may be kept. Sessions that may still be used stay: if hosts that
        are read in turn replaced each other's, no session would be left when its host is read again."""
        self.sessions.pop(host, None)
        oldest = next(iter(self.sessions.values()), None)
        if oldest is not None and oldest.until <= self.clock.monotonic():
            self.sessions.popitem(last=False)
        return len(self.sessions) < MOST

    def keep(self, host: str, session: ssl.SSLSession) -> None:
        """Offer this session to the next connections to the host. Its certificate was just checked."""
        self.sessions[host] = _Session(session, self.clock.monotonic() + CHECKED_FOR.total_seconds())

    def forget(self, host: str) -> None:
        """Make the next connection to this host check the certificate."""
        self.sessions.pop(host, None)


def keep_session(connection: ssl.SSLObject) -> None:
    """Keep the session of a connection on which a response was received. A resumed session keeps its age."""
    context, host = connection.context, connection.server_hostname
    if not isinstance(context, ResumingContext) or host is None or connection.session_reused:
        return
    if context.make_room(host):
        session = connection.session
        if session is not None and (session.has_ticket or session.id):
            context.keep(host, session)
