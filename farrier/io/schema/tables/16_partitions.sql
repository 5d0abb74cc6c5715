-- InfiniBand partitions and their members.

-- InfiniBand partitions: the table of kind ib_partition.
CREATE TABLE farrier.ib_partitions (
    LIKE farrier.resources INCLUDING ALL,
    pkey          integer NOT NULL CHECK (pkey BETWEEN 1 AND 32766),  -- its number, taken from the pool of its site
    mtu_limit     integer NOT NULL DEFAULT 2 CHECK (mtu_limit IN (2, 4)),  -- KiB
    rate_limit    text    NOT NULL DEFAULT '2.5' CHECK (rate_limit IN (
        '2.5', '5', '10', '14', '20', '25', '30', '40', '56', '60', '80', '100', '112', '120', '168', '200', '300')),  -- Gb/s
    service_level integer NOT NULL DEFAULT 0 CHECK (service_level BETWEEN 0 AND 15),  -- of InfiniBand, for its traffic
    ip_over_ib    boolean NOT NULL DEFAULT true,   -- whether UFM allows IP over InfiniBand in it
    index0        boolean NOT NULL DEFAULT false,  -- the key is the first in the tables of its ports
    claimed_at    timestamptz,                     -- since when its number in UFM belongs to farrier: UFM was seen without it;
                                                   -- null before
    claimed_in    text    NOT NULL DEFAULT '',     -- URL of that UFM
    asked_at      timestamptz,                     -- since when UFM has not done what it accepted; null if it has
    absent_at     timestamptz,                     -- since when UFM was seen without the partition while it is being deleted
    draining      boolean NOT NULL DEFAULT false,  -- it was deleted although it had members, and waits for them to leave
    fabric_name   text    NOT NULL DEFAULT '',     -- its name in UFM
    strangers     jsonb   NOT NULL DEFAULT '[]'    -- [{guid, seen_at}]: ports that UFM has in it and no client made members
);
CREATE INDEX ib_partitions_ended_name ON farrier.ib_partitions (name) WHERE ended_at IS NOT NULL;

-- Ports that are members of partitions.
CREATE TABLE farrier.ib_members (
    partition  bigint      NOT NULL REFERENCES farrier.ib_partitions,
    guid       text        NOT NULL CHECK (guid ~ '^[0-9a-f]{16}$'),  -- of the port, as ib_guid spells it
    owner      text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
                                                            -- who made it a member, as the client says
    node       bigint      REFERENCES farrier.nodes,        -- the node that it is for; null for none
    membership text        NOT NULL DEFAULT 'full' CHECK (membership IN ('full', 'limited')),
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'applied', 'refused', 'leaving')),
                                                            -- pending: to be added in UFM; applied: UFM has it; refused: UFM does
                                                            -- not take it, and is asked again; leaving: to be removed in UFM,
                                                            -- then deleted
    reason     text,                                        -- why UFM refuses it; null if it does not
    since      timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the state is this one
    seq        bigint      NOT NULL DEFAULT 1,              -- counts what clients asked of it; a run that saw another value
                                                            -- leaves the row as it is
    PRIMARY KEY (partition, guid)
) WITH (fillfactor = 80);
CREATE INDEX ib_members_node ON farrier.ib_members (node) WHERE node IS NOT NULL;
CREATE INDEX ib_members_guid ON farrier.ib_members (guid);
