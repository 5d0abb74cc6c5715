-- Network segments, their prefixes and addresses.

CREATE TABLE farrier.network_segments (
    LIKE farrier.resources INCLUDING ALL,
    prefixes        text[]      NOT NULL,               -- as PostgreSQL spells them; segment_prefixes follows
    gateways        text[]      NOT NULL DEFAULT '{}',  -- each of one of them
    reserved_first  integer     NOT NULL DEFAULT 0 CHECK (reserved_first BETWEEN 0 AND 65536),
    reserved_last   integer     NOT NULL DEFAULT 0 CHECK (reserved_last BETWEEN 0 AND 65536),
    vlan            integer     CHECK (vlan BETWEEN 1 AND 4094),
    vni             integer     CHECK (vni BETWEEN 1 AND 16777215),
    mtu             integer     NOT NULL DEFAULT 1500 CHECK (mtu BETWEEN 576 AND 9216),
    drain_until     timestamptz,
    delete_asked_at timestamptz,
    delete_request  bigint,                             -- of farrier.resource_intents: who asked
    CONSTRAINT segment_has_site CHECK (site IS NOT NULL)
);
-- Also where there is no pool: two networks with one tag are one network.
CREATE UNIQUE INDEX network_segments_vlan ON farrier.network_segments (site, vlan) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX network_segments_vni ON farrier.network_segments (vni) WHERE ended_at IS NULL;
CREATE INDEX network_segments_ended_name ON farrier.network_segments (name, id) WHERE ended_at IS NOT NULL;

-- What is given out, and to how many. The row is the lock under which a segment's addresses change: an allocation or a
-- release holds it to the end of its transaction, and the loop never waits for it: the only commit that changes the row is
-- the one that closes a segment, and that takes it with SKIP LOCKED. Nobody who holds it wants another row that the loop has.
CREATE TABLE farrier.segment_usage (
    segment          bigint      PRIMARY KEY REFERENCES farrier.network_segments,
    open             boolean     NOT NULL DEFAULT true,  -- until its deletion begins; nothing is given out before it is ready, either
    allocated        bigint      NOT NULL DEFAULT 0 CHECK (allocated >= 0),
    last_released_at timestamptz                         -- when that was committed
) WITH (fillfactor = 50);

-- Prefixes of segments that have not ended. No two of a site overlap, proven by the constraint: it sees what others have
-- not committed yet and waits for it, whatever the isolation level. A site becomes a range of texts, one name long,
-- because core PostgreSQL has GiST for ranges and networks, but for the equality of texts only by an extension.
CREATE TYPE farrier.site_span AS RANGE (subtype = text, collation = "C");

CREATE TABLE farrier.segment_prefixes (
    segment        bigint  NOT NULL REFERENCES farrier.segment_usage,
    prefix         cidr    NOT NULL,
    site           text    NOT NULL,
    gateway        inet    CHECK (gateway << prefix OR gateway = prefix),
    reserved_first integer NOT NULL,
    reserved_last  integer NOT NULL,
    first          inet    NOT NULL,  -- of what is given out, gateway aside
    last           inet    NOT NULL,
    usable         numeric NOT NULL CHECK (usable > 0),
    PRIMARY KEY (segment, prefix),
    CONSTRAINT segment_prefixes_apart EXCLUDE USING gist (farrier.site_span(site, site, '[]') WITH &&, prefix inet_ops WITH &&)
);

-- Free addresses, as ranges: a /64 is one row. Kept by their ends, because the lowest free address is taken from the front
-- of the first, which leaves its key as it is.
CREATE TABLE farrier.segment_free (
    segment bigint NOT NULL,
    prefix  cidr   NOT NULL,
    first   inet   NOT NULL,
    last    inet   NOT NULL,
    PRIMARY KEY (segment, last),
    CHECK (first <= last),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes ON DELETE CASCADE
) WITH (fillfactor = 50);

CREATE TABLE farrier.segment_addresses (
    segment      bigint      NOT NULL,
    address      inet        NOT NULL,
    prefix       cidr        NOT NULL,
    owner        text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
    node         bigint      REFERENCES farrier.nodes,
    allocated_at timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (segment, address),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes
);
-- Whoever asks again gets the address that it has: one of each family.
CREATE UNIQUE INDEX segment_addresses_owner ON farrier.segment_addresses (segment, owner, family(address));
CREATE INDEX segment_addresses_node ON farrier.segment_addresses (node) WHERE node IS NOT NULL;
