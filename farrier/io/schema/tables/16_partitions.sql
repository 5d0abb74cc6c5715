-- InfiniBand partitions and their members.

CREATE TABLE farrier.ib_partitions (
    LIKE farrier.resources INCLUDING ALL,
    pkey          integer NOT NULL CHECK (pkey BETWEEN 1 AND 32766),
    mtu_limit     integer NOT NULL DEFAULT 2 CHECK (mtu_limit IN (2, 4)),     -- KiB
    rate_limit    text    NOT NULL DEFAULT '2.5' CHECK (rate_limit IN (       -- Gb/s
        '2.5', '5', '10', '14', '20', '25', '30', '40', '56', '60', '80', '100', '112', '120', '168', '200', '300')),
    service_level integer NOT NULL DEFAULT 0 CHECK (service_level BETWEEN 0 AND 15),
    ip_over_ib    boolean NOT NULL DEFAULT true,
    index0        boolean NOT NULL DEFAULT false,
    claimed_at    timestamptz,                          -- since when the number is ours in UFM
    claimed_in    text    NOT NULL DEFAULT '',          -- in which UFM: its URL
    asked_at      timestamptz,                          -- since when UFM has not done what it took
    absent_at     timestamptz,                          -- since when UFM was seen without it, while it is deleted
    draining      boolean NOT NULL DEFAULT false,       -- deleted although it had members
    fabric_name   text    NOT NULL DEFAULT '',          -- what UFM calls it
    strangers     jsonb   NOT NULL DEFAULT '[]'         -- ports in UFM that nobody asked for: [{guid, seen_at}]
);
CREATE INDEX ib_partitions_ended_name ON farrier.ib_partitions (name) WHERE ended_at IS NOT NULL;

CREATE TABLE farrier.ib_members (
    partition  bigint      NOT NULL REFERENCES farrier.ib_partitions,
    guid       text        NOT NULL CHECK (guid ~ '^[0-9a-f]{16}$'),
    owner      text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
    node       bigint      REFERENCES farrier.nodes,
    membership text        NOT NULL DEFAULT 'full' CHECK (membership IN ('full', 'limited')),
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'applied', 'refused', 'leaving')),
    reason     text,                                    -- why UFM refuses it
    since      timestamptz NOT NULL DEFAULT farrier.now(),  -- in this state
    seq        bigint      NOT NULL DEFAULT 1,          -- counts what was asked of it
    PRIMARY KEY (partition, guid)
) WITH (fillfactor = 80);
CREATE INDEX ib_members_node ON farrier.ib_members (node) WHERE node IS NOT NULL;
CREATE INDEX ib_members_guid ON farrier.ib_members (guid);
