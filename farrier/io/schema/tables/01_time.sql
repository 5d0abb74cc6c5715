-- Time: the pulses by which controllers notice a clock that was set back and the end of an outage, and the mends of stored times.

-- The pulses (farrier.model.loop.doors), one row for each.
CREATE TABLE farrier.pulse (
    name text           PRIMARY KEY,
    at   timestamptz    NOT NULL,              -- the last beat, or the time until which the pulse was not needed; earlier than before
                                               -- only if the clock was set back
    gaps tstzmultirange NOT NULL DEFAULT '{}'  -- the times of the last week in which the pulse was lost, at most a hundred: each from the
                                               -- last beat before it until the first beat after it, or until the last check if the
                                               -- pulse is still lost. In such a time, agents may not have been able to report: the
                                               -- database or all controllers were away, all doors were away, or the doors reached
                                               -- no agent
);

INSERT INTO farrier.pulse (name, at) VALUES ('controllers', farrier.now()), ('doors', farrier.now()), ('agents', farrier.now());

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
