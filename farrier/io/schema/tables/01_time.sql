-- Time: the pulse by which controllers notice a clock that was set back, and the mends of stored times.

-- One row: when a controller last committed a pulse.
CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL  -- never earlier than an earlier pulse, unless the clock was set back
);

INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- A setback of the clock after which the stored times are not mended yet. The mend goes over the tables in the order of
-- farrier.mendable().
CREATE TABLE farrier.mends (
    id       bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    back     interval NOT NULL,                                    -- by how much the clock was set back
    noticed  xid      NOT NULL DEFAULT pg_current_xact_id()::xid,  -- rows that are younger have correct times
    place    text     NOT NULL DEFAULT '',                         -- the table that is being mended, as mendable() names it; ''
                                                                   -- before the first
    after    bigint                                                -- the last id that was mended there; null once the table is
                                                                   -- finished
);
