"""A site whose nodes use a segment and a partition: the loops of nodes, region, segments and partitions run in one
database.

`Tenancy.site` is the site of `tests.support.site`, with a simulated MAAS region; `manager` is its simulated UFM. Time
passes for all four loops alike.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from farrier.config.sites import CloudInitSite, InfinibandSite, NetworkSite, UfmSite
from farrier.config.sites import Site as SiteConfig
from farrier.handlers.ib_partition.handler import PARTITION_KIND, PartitionHandler
from farrier.handlers.network_segment.handler import SEGMENT_KIND, SegmentHandler
from farrier.io.kinds.built_in import PARTITION_ROWS, SEGMENT_ROWS
from farrier.services.http.client import Times
from farrier.services.ufm.client import Fabrics
from farrier.sim.maas import Region
from farrier.sim.ufm import Manager, UfmTransport
from tests.support import onboarded, pg
from tests.support import site as sites
from tests.support.clock import no_pause
from tests.support.loop import Ledger
from tests.support.observed import Observed
from tests.support.site import SECOND, Machine, Site
from tests.support.ufm import OneCredential
from tests.support.wire import Wire

SEGMENT = "tenant-a"
PARTITION = "ib-a"
KEY = 0x10
TEMPLATE = """#cloud-config
token: {{ bootstrap_token }}
{% for name, segment in segments.items() %}
address: {{ name }} {{ segment.address }}/{{ segment.prefix_length }} via {{ segment.gateway or 'none' }}
{% endfor %}
"""

CREATE = (
    "INSERT INTO farrier.resource_intents (kind, resource, action, params) VALUES ($1, $2, 'create', $3::text::jsonb)"
)
_ASK = (
    "INSERT INTO farrier.resource_intents (kind, resource, action, params, requested_by)"
    " VALUES ($1, $2, $3, $4::text::jsonb, 'ann') RETURNING id"
)
_ANSWER = "SELECT status, coalesce(reason, '') AS reason FROM farrier.resource_intents WHERE id = $1"
_HELD = """
    SELECT host(a.address) AS address
      FROM farrier.segment_addresses a JOIN farrier.network_segments s ON s.id = a.segment
     WHERE a.owner = $1 AND s.name = $2 AND s.ended_at IS NULL ORDER BY a.address
"""
# What no commit may leave: an address or membership whose node is deleted or has no such use, two addresses of one
# segment for one node, wrong counts, and lost addresses.
_WRONG = """
    SELECT format('%s of segment %s is held by %s', host(a.address), a.segment, a.owner) AS wrong
      FROM farrier.segment_addresses a
      JOIN farrier.network_segments s ON s.id = a.segment
      LEFT JOIN farrier.nodes n ON n.id = a.node
     WHERE n.status = 'deleted' OR n.name <> a.owner OR n.site <> s.site
        OR NOT EXISTS (SELECT FROM farrier.node_uses u
                        WHERE u.node = n.id AND u.kind = 'network_segment' AND u.name = s.name)
    UNION ALL
    SELECT format('node %s has %s addresses of segment %s', a.node, count(*), a.segment)
      FROM farrier.segment_addresses a GROUP BY a.node, a.segment HAVING count(*) > 1
    UNION ALL
    SELECT format('segment %s counts %s addresses, and has %s', u.segment, u.allocated, x.many)
      FROM farrier.segment_usage u
     CROSS JOIN LATERAL (SELECT count(*) AS many FROM farrier.segment_addresses a WHERE a.segment = u.segment) x
     WHERE u.allocated <> x.many
    UNION ALL
    SELECT format('segment %s has lost addresses', p.segment)
      FROM farrier.segment_prefixes p
     WHERE p.usable <> (SELECT count(*) FROM farrier.segment_addresses a
                         WHERE a.segment = p.segment AND a.prefix = p.prefix)
                     + (SELECT coalesce(sum(f.last - f.first + 1), 0) FROM farrier.segment_free f
                         WHERE f.segment = p.segment AND f.prefix = p.prefix)
    UNION ALL
    SELECT format('%s of partition %s is a member for %s', m.guid, m.partition, m.owner)
      FROM farrier.ib_members m LEFT JOIN farrier.nodes n ON n.id = m.node
     WHERE m.state <> 'leaving' AND (n.status = 'deleted' OR n.name <> m.owner
        OR NOT EXISTS (SELECT FROM farrier.node_uses u WHERE u.node = n.id AND u.kind = 'ib_partition'))
    UNION ALL
    SELECT format('deleted node %s is to use %s', n.name, u.name)
      FROM farrier.node_uses u JOIN farrier.nodes n ON n.id = u.node WHERE n.status = 'deleted'
"""


class Tenancy:
    """The site with its four loops. `config` has the settings of the site's file."""

    def __init__(self, site: Site, config: SiteConfig, manager: Manager) -> None:
        self.site = site
        self.config = config
        self.manager = manager
        self._nodes = 0

    async def ask(self, kind: str, name: str, action: str, **params: object) -> int:
        """Insert an intent; returns its id."""
        asked: int = await self.site.conn.fetchval(_ASK, kind, name, action, json.dumps(params))
        return asked

    async def asked(self, kind: str, name: str, action: str, **params: object) -> tuple[str, str]:
        """Insert an intent and run until it is settled; returns status and reason of the answer."""
        id_ = await self.ask(kind, name, action, **params)
        await self.site.settled()
        (row,) = await self.site.conn.fetch(_ANSWER, id_)
        return row["status"], row["reason"]

    async def segment(self, *prefixes: str, name: str = SEGMENT, **params: object) -> None:
        """Create a segment, which is ready at once."""
        given = {"site": self.config.name, "prefixes": list(prefixes or ("10.9.0.0/24",)), **params}
        await self.asked("network_segment", name, "create", **given)

    async def partition(self, name: str = PARTITION, **params: object) -> None:
        """Create a partition, also in UFM if that responds."""
        await self.asked("ib_partition", name, "create", **{"site": self.config.name, **params})

    async def node(self, *ports: str, name: str = "") -> Machine:
        """A node whose BMC responds; with one InfiniBand port of its own unless `ports` are given."""
        self._nodes += 1
        number = self._nodes
        node = await onboarded.manageable(self.site, name=name, macs=[f"52:54:00:00:01:{number:02x}"])
        await self.has_ports(node, *(ports or (f"0002c903000e{number:04x}",)))
        return node

    async def has_ports(self, node: Machine, *ports: str) -> None:
        await self.site.conn.execute("SELECT farrier.set_ib_ports($1, $2)", node.name, list(ports))
        await self.site.settled()

    async def begun(self, *ports: str, name: str = "") -> Machine:
        """A node whose onboarding has reached the stage that allocates its networks, or a later one."""
        node = await onboarded.begun(await self.node(*ports, name=name))
        await onboarded.until(node, "apply_roce_phase2", "deploy_via_maas", "wait_for_deployed")
        return node

    async def active(self, name: str = "") -> Machine:
        """A node that was onboarded and is active."""
        node = await onboarded.enrolled(await onboarded.deployed(await onboarded.begun(await self.node(name=name))))
        assert (await node.state())[:2] == ("active", "completed")
        return node

    async def reason(self, node: Machine) -> str:
        """The reason of the node's last outcome."""
        return str(json.loads((await node.look())["outcome"])["reason"])

    async def until_reason(self, node: Machine, text: str) -> None:
        """Let time pass until the reason of the node's last outcome contains the text."""

        async def says_so() -> bool:
            return text in await self.reason(node)

        await self.site.wait_until(says_so, every=5 * SECOND)

    async def addresses(self, node: Machine, segment: str = SEGMENT) -> list[str]:
        """The addresses that the node has in the segment."""
        return [row["address"] for row in await self.site.conn.fetch(_HELD, node.name, segment)]

    async def members(self) -> dict[str, str]:
        """States of all members, by GUID."""
        rows = await self.site.conn.fetch("SELECT guid, state FROM farrier.ib_members ORDER BY guid")
        return {row["guid"]: row["state"] for row in rows}

    @property
    def ports(self) -> Sequence[str]:
        """The ports that UFM has under the first key."""
        known = self.manager.partitions.get(KEY)
        return [] if known is None else sorted(known.ports)

    async def state(self, table: str, name: str) -> str:
        """The state of the newest resource of this name."""
        found = await self.site.conn.fetchval(
            f"SELECT state FROM {table} WHERE name = $1 ORDER BY id DESC LIMIT 1", name
        )
        return str(found)

    async def until_gone(self, table: str, name: str) -> None:
        """Let time pass until the resource is gone."""

        async def is_gone() -> bool:
            return await self.state(table, name) == "gone"

        await self.site.wait_until(is_gone, every=30 * SECOND)

    async def until_left(self) -> None:
        """Let time pass until no port is a member any more."""

        async def have_left() -> bool:
            return not await self.members()

        await self.site.wait_until(have_left, every=10 * SECOND, longest=timedelta(minutes=10))

    async def wrong(self) -> list[str]:
        """Addresses and members that should not be held, or are lost."""
        return [row["wrong"] for row in await self.site.conn.fetch(_WRONG)]


def config_with(segments: Sequence[str], partitions: Sequence[str]) -> SiteConfig:
    return msgspec.structs.replace(
        onboarded.UNSYNCED,
        network=NetworkSite(segments=tuple(segments)),
        infiniband=InfinibandSite(partitions=tuple(partitions)),
        ufm=UfmSite(url="http://ufm.test", token="env:UFM"),
        cloud_init=CloudInitSite(template=TEMPLATE),
    )


@asynccontextmanager
async def opened(
    db: pg.Database,
    *,
    segments: Sequence[str] = (SEGMENT,),
    partitions: Sequence[str] = (PARTITION,),
    wire: Wire | None = None,
    manager: Manager | None = None,
    crash: bool = False,
) -> AsyncIterator[Tenancy]:
    """A running site with a pool of numbers for partitions, and without segments and partitions. With `crash` the
    process dies at the end, and gives no shard back."""
    config = config_with(segments, partitions)
    manager = manager or Manager()
    ledger = Ledger()
    region: Any = wire or Region(durations=onboarded.QUICK)

    @asynccontextmanager
    async def networks(site: Site) -> AsyncIterator[None]:
        async with Fabrics.open(
            credentials=OneCredential(manager.username, manager.password, manager.token),
            times=Times(clock=site.maas.clock, pause=no_pause),
            observer=Observed("ufm"),
            transport=UfmTransport(manager),
        ) as fabrics:
            settings = UfmSite(url="http://ufm.test", credential="env:UFM")
            await fabrics.use({config.name: settings})
            owner = site.owner
            segments, partitions = SEGMENT_KIND.guarded(SegmentHandler()), PARTITION_KIND.guarded(PartitionHandler())
            owner.add(SEGMENT_KIND, segments, SEGMENT_ROWS, services=object(), sink=ledger)
            owner.add(PARTITION_KIND, partitions, PARTITION_ROWS, services=fabrics, sink=ledger)
            yield

    async with sites.opened(db, region=region, config=config, crash=crash, more=networks) as site:
        await site.conn.execute("SELECT farrier.set_pool($1, $2, $3)", f"pkey:{config.name}", KEY, KEY + 15)
        tenancy = Tenancy(site, config, manager)
        yield tenancy
        assert not await tenancy.wrong()
    assert not ledger.errors, ledger.errors
    assert "refused" not in ledger.verdicts, ledger.verdicts
