-- Time: the pulse that notices a clock that was set back, and the mend of stored times.

CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL
);

INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- A setback of the clock whose stored times are not mended yet. The mend goes over the tables in the order of `mendable`;
-- `place` is the one that is under way, and `after` the last id that was mended there, null once the table is finished.
CREATE TABLE farrier.mends (
    id       bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    back     interval NOT NULL,
    noticed  xid      NOT NULL DEFAULT pg_current_xact_id()::xid,  -- rows that are younger were written by the right time
    place    text     NOT NULL DEFAULT '',
    after    bigint
);
