-- Network segments, their prefixes and addresses.

-- Network segments: the table of kind network_segment.
CREATE TABLE farrier.network_segments (
    LIKE farrier.resources INCLUDING ALL,
    prefixes        text[]      NOT NULL,                         -- in PostgreSQL's spelling; segment_prefixes has a row for each
                                                                  -- until the segment ends
    gateways        text[]      NOT NULL DEFAULT '{}',            -- addresses, each in one of the prefixes
    reserved_first  integer     NOT NULL DEFAULT 0 CHECK (reserved_first BETWEEN 0 AND 65536),
                                                                  -- how many addresses at the beginning of each prefix are not
                                                                  -- given out
    reserved_last   integer     NOT NULL DEFAULT 0 CHECK (reserved_last BETWEEN 0 AND 65536),
                                                                  -- how many at its end are not given out
    vlan            integer     CHECK (vlan BETWEEN 1 AND 4094),  -- unique at its site
    vni             integer     CHECK (vni BETWEEN 1 AND 16777215),  -- unique
    mtu             integer     NOT NULL DEFAULT 1500 CHECK (mtu BETWEEN 576 AND 9216),  -- bytes
    drain_until     timestamptz,                                  -- when the drain may end, unless an address is allocated until
                                                                  -- then
    delete_asked_at timestamptz,                                  -- when its deletion was accepted
    delete_request  bigint,                                       -- the row of resource_intents that asked for it
    CONSTRAINT segment_has_site CHECK (site IS NOT NULL)
);
-- Also without a pool: two networks with one VLAN tag are one network.
CREATE UNIQUE INDEX network_segments_vlan ON farrier.network_segments (site, vlan) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX network_segments_vni ON farrier.network_segments (vni) WHERE ended_at IS NULL;
CREATE INDEX network_segments_ended_name ON farrier.network_segments (name, id) WHERE ended_at IS NOT NULL;

-- How much of each segment is in use. The row is the lock under which its addresses change: an allocation or a release holds it
-- until its transaction ends, and the loop does not wait for it. The only commit that changes the row is the one that closes a
-- segment, and that takes it with SKIP LOCKED. A transaction that holds it waits for no other row that the loop holds.
CREATE TABLE farrier.segment_usage (
    segment          bigint      PRIMARY KEY REFERENCES farrier.network_segments,
    open             boolean     NOT NULL DEFAULT true,  -- false from the beginning of its deletion on; nothing is given out
                                                         -- before state ready, either
    allocated        bigint      NOT NULL DEFAULT 0 CHECK (allocated >= 0),  -- how many addresses are allocated
    last_released_at timestamptz                         -- when an address was last released, as of COMMIT
) WITH (fillfactor = 50);

-- A site as a range that holds its name alone; see segment_prefixes.
CREATE TYPE farrier.site_span AS RANGE (subtype = text, collation = "C");

-- Prefixes of segments that have not ended. The exclusion constraint proves that no two of a site overlap: it sees what other
-- transactions have not committed and waits for them, at any isolation level. A site becomes a range of texts of one name,
-- because core PostgreSQL has GiST for ranges and networks, but for equality of texts only in an extension.
CREATE TABLE farrier.segment_prefixes (
    segment        bigint  NOT NULL REFERENCES farrier.segment_usage,
    prefix         cidr    NOT NULL,
    site           text    NOT NULL,
    gateway        inet    CHECK (gateway << prefix OR gateway = prefix),  -- null for none
    reserved_first integer NOT NULL,                     -- see network_segments
    reserved_last  integer NOT NULL,                     -- see network_segments
    first          inet    NOT NULL,                     -- first address that is given out, unless it is the gateway
    last           inet    NOT NULL,                     -- last address that is given out, unless it is the gateway
    usable         numeric NOT NULL CHECK (usable > 0),  -- how many addresses are given out
    PRIMARY KEY (segment, prefix),
    CONSTRAINT segment_prefixes_apart EXCLUDE USING gist (farrier.site_span(site, site, '[]') WITH &&, prefix inet_ops WITH &&)
);

-- Free addresses, as ranges: a /64 is one row. The key is the end of a range, because the lowest free address is taken from the
-- front of the first range, which leaves its key as it is.
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
                                                        -- for whom it was allocated, as the client says: one address of each
                                                        -- family
    node         bigint      REFERENCES farrier.nodes,  -- the node that it is for; null for none
    allocated_at timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (segment, address),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes
);
-- An owner that calls again gets its address: one of each family.
CREATE UNIQUE INDEX segment_addresses_owner ON farrier.segment_addresses (segment, owner, family(address));
CREATE INDEX segment_addresses_node ON farrier.segment_addresses (node) WHERE node IS NOT NULL;
