-- Time: the pulse by which controllers notice a clock that was set back and the end of an outage, and the mends of stored times.

-- One row: when a controller last committed a pulse.
CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL  -- earlier than the previous pulse only if the clock was set back
);

-- The gaps of more than 10 seconds between pulses, of the last week. In such a gap, the database or all controllers were away.
CREATE TABLE farrier.pulse_gaps (
    until  timestamptz PRIMARY KEY,  -- the first pulse after the gap
    lasted interval    NOT NULL
);

INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- Setbacks of the clock whose stored times are not mended yet. The mend goes through the tables in the order of farrier.mendable().
CREATE TABLE farrier.mends (
    id       bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    back     interval NOT NULL,                                    -- by how much the clock was set back
    noticed  xid      NOT NULL DEFAULT pg_current_xact_id()::xid,  -- rows that were written later have correct times
    place    text     NOT NULL DEFAULT '',                         -- the table that is being mended, named as in mendable(); ''
                                                                   -- before the first table
    after    bigint                                                -- the last id that was mended in that table; null once the table
                                                                   -- is finished
);
