-- InfiniBand partitions and their members.

-- InfiniBand partitions: the table of kind ib_partition.
CREATE TABLE farrier.ib_partitions (
    LIKE farrier.resources INCLUDING ALL,
    pkey          integer NOT NULL CHECK (pkey BETWEEN 1 AND 32766),  -- the partition key, taken from the pool of its site
    mtu_limit     integer NOT NULL DEFAULT 2 CHECK (mtu_limit IN (2, 4)),  -- KiB
    rate_limit    text    NOT NULL DEFAULT '2.5' CHECK (rate_limit IN (
        '2.5', '5', '10', '14', '20', '25', '30', '40', '56', '60', '80', '100', '112', '120', '168', '200', '300')),  -- Gb/s
    service_level integer NOT NULL DEFAULT 0 CHECK (service_level BETWEEN 0 AND 15),  -- InfiniBand service level of its traffic
    ip_over_ib    boolean NOT NULL DEFAULT true,   -- whether UFM allows IP over InfiniBand in the partition
    index0        boolean NOT NULL DEFAULT false,  -- the key is the first in the partition tables of its ports
    claimed_at    timestamptz,                     -- since when the number belongs to farrier in UFM, because UFM had no such
                                                   -- partition; null before
    claimed_in    text    NOT NULL DEFAULT '',     -- URL of the UFM for which claimed_at holds
    asked_at      timestamptz,                     -- since when UFM has not made a change that it accepted; null: no such
                                                   -- change
    absent_at     timestamptz,                     -- when UFM was first seen without the partition during its deletion
    draining      boolean NOT NULL DEFAULT false,  -- the deletion was accepted although the partition has members, and waits until
                                                   -- they leave
    fabric_name   text    NOT NULL DEFAULT '',     -- its name in UFM
    strangers     jsonb   NOT NULL DEFAULT '[]'    -- [{guid, seen_at}]: ports that are members in UFM and that no client added
);
CREATE INDEX ib_partitions_ended_name ON farrier.ib_partitions (name) WHERE ended_at IS NOT NULL;

-- Ports that are members of partitions.
CREATE TABLE farrier.ib_members (
    partition  bigint      NOT NULL REFERENCES farrier.ib_partitions,
    guid       text        NOT NULL CHECK (guid ~ '^[0-9a-f]{16}$'),  -- GUID of the port, in the form of ib_guid
    owner      text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
                                                            -- the owner of the membership, named by the client
    node       bigint      REFERENCES farrier.nodes,        -- the node that uses the port; null: no node
    membership text        NOT NULL DEFAULT 'full' CHECK (membership IN ('full', 'limited')),
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'applied', 'refused', 'leaving')),
                                                            -- pending: to be added in UFM; applied: added in UFM; refused: UFM
                                                            -- refused it, and the request is repeated; leaving: to be removed in UFM,
                                                            -- then deleted
    reason     text,                                        -- why UFM refuses the port; null: not refused
    since      timestamptz NOT NULL DEFAULT farrier.now(),  -- when the member entered this state
    seq        bigint      NOT NULL DEFAULT 1,              -- incremented by each request of a client for the member; a run that read
                                                            -- another value does not change the row
    PRIMARY KEY (partition, guid)
) WITH (fillfactor = 80);
CREATE INDEX ib_members_node ON farrier.ib_members (node) WHERE node IS NOT NULL;
CREATE INDEX ib_members_guid ON farrier.ib_members (guid);
