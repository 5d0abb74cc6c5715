-- Network segments, their prefixes and addresses.

-- Network segments: the table of kind network_segment.
CREATE TABLE farrier.network_segments (
    LIKE farrier.resources INCLUDING ALL,
    prefixes        text[]      NOT NULL,                         -- as PostgreSQL writes them; segment_prefixes has a row for each
                                                                  -- until the segment ends
    gateways        text[]      NOT NULL DEFAULT '{}',            -- addresses, each within one of the prefixes
    reserved_first  integer     NOT NULL DEFAULT 0 CHECK (reserved_first BETWEEN 0 AND 65536),
                                                                  -- how many addresses at the beginning of each prefix are never
                                                                  -- allocated
    reserved_last   integer     NOT NULL DEFAULT 0 CHECK (reserved_last BETWEEN 0 AND 65536),
                                                                  -- how many addresses at the end of each prefix are never allocated
    vlan            integer     CHECK (vlan BETWEEN 1 AND 4094),  -- unique at its site
    vni             integer     CHECK (vni BETWEEN 1 AND 16777215),  -- unique
    mtu             integer     NOT NULL DEFAULT 1500 CHECK (mtu BETWEEN 576 AND 9216),  -- bytes
    drain_until     timestamptz,                                  -- when the drain may end, unless an address is allocated at that time
    delete_asked_at timestamptz,                                  -- when the deletion was accepted
    delete_request  bigint,                                       -- the row of resource_intents that requested the deletion
    CONSTRAINT segment_has_site CHECK (site IS NOT NULL)
);
-- Covers tags that come from no pool, too, because two networks with one VLAN tag are one network.
CREATE UNIQUE INDEX network_segments_vlan ON farrier.network_segments (site, vlan) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX network_segments_vni ON farrier.network_segments (vni) WHERE ended_at IS NULL;
CREATE INDEX network_segments_ended_name ON farrier.network_segments (name, id) WHERE ended_at IS NOT NULL;

-- How much of each segment is in use. The row is the lock under which addresses of the segment change: a transaction
-- that allocates or releases an address holds the lock until it ends. The loop does not wait for this lock: its only
-- commit that changes the row closes a segment, and locks the row with SKIP LOCKED. A transaction that holds the lock
-- waits for no row that the loop has locked.
CREATE TABLE farrier.segment_usage (
    segment          bigint      PRIMARY KEY REFERENCES farrier.network_segments,
    open             boolean     NOT NULL DEFAULT true,  -- false from the beginning of the segment's deletion; only an open segment
                                                         -- in state ready allocates addresses
    allocated        bigint      NOT NULL DEFAULT 0 CHECK (allocated >= 0),  -- how many addresses are allocated
    last_released_at timestamptz                         -- when an address was last released, set at COMMIT
) WITH (fillfactor = 50);

-- A site as a range that contains only its name; see segment_prefixes.
CREATE TYPE farrier.site_span AS RANGE (subtype = text, collation = "C");

-- Prefixes of segments that have not ended. The exclusion constraint proves that no two prefixes of a site overlap: at any isolation
-- level, it sees uncommitted rows of other transactions and waits for them. A site is stored as a range with one text,
-- because core PostgreSQL has GiST operators for ranges and networks; operators for equality of texts require an
-- extension.
CREATE TABLE farrier.segment_prefixes (
    segment bigint  NOT NULL REFERENCES farrier.segment_usage,
    prefix  cidr    NOT NULL,
    site    text    NOT NULL,
    gateway inet    CHECK (gateway << prefix OR gateway = prefix),  -- null: no gateway
    first   inet    NOT NULL,                     -- first address for allocation; the gateway is skipped
    last    inet    NOT NULL,                     -- last address for allocation; the gateway is skipped
    usable  numeric NOT NULL CHECK (usable > 0),  -- how many addresses can be allocated
    PRIMARY KEY (segment, prefix),
    CONSTRAINT segment_prefixes_apart EXCLUDE USING gist (farrier.site_span(site, site, '[]') WITH &&, prefix inet_ops WITH &&)
);

-- Free addresses, as ranges: a /64 is one row. The key is the end of a range. The lowest free address is taken from the start of the
-- first range, which leaves the key unchanged.
CREATE TABLE farrier.segment_free (
    segment bigint NOT NULL,
    prefix  cidr   NOT NULL,
    first   inet   NOT NULL,  -- first address of the range
    last    inet   NOT NULL,  -- last address of the range
    PRIMARY KEY (segment, last),
    CHECK (first <= last),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes ON DELETE CASCADE
) WITH (fillfactor = 50);

-- Allocated addresses.
CREATE TABLE farrier.segment_addresses (
    segment      bigint      NOT NULL,
    address      inet        NOT NULL,
    prefix       cidr        NOT NULL,
    owner        text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
                                                        -- the owner, named by the client; it has one address of each family
    node         bigint      REFERENCES farrier.nodes,  -- the node that uses the address; null: no node
    allocated_at timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (segment, address),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes
);
-- An owner has one address of each family, so that a repeated call returns the same address.
CREATE UNIQUE INDEX segment_addresses_owner ON farrier.segment_addresses (segment, owner, family(address));
CREATE INDEX segment_addresses_node ON farrier.segment_addresses (node) WHERE node IS NOT NULL;
