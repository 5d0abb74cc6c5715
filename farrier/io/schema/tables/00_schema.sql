-- What this database was brought to, and by whom; made before everything else, and made anew by no migration: hence IF NOT EXISTS.

CREATE SCHEMA IF NOT EXISTS farrier;

-- One row: the session that migrates.
CREATE TABLE IF NOT EXISTS farrier.migrator (
    only_one      boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    pid           integer,  -- null for none
    login         text,
    backend_start timestamptz
);
INSERT INTO farrier.migrator DEFAULT VALUES ON CONFLICT DO NOTHING;

-- The versions of the tables. 1 is the baseline; each later one is a step between two releases, applied here or contained in
-- the baseline that this database was made with.
CREATE TABLE IF NOT EXISTS farrier.schema_steps (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- farrier.now() does not exist yet
);

-- One row: the set of functions, views, triggers and rights that was applied last.
CREATE TABLE IF NOT EXISTS farrier.schema_set (
    only_one   boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    hash       text        NOT NULL,  -- of the texts below
    tables     text        NOT NULL,  -- hash of the baseline of the program that applied it
    release    text        NOT NULL,  -- of that program
    server     integer     NOT NULL,  -- major version of PostgreSQL, on which the definitions below depend
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- The members of that set. What is listed here is farrier's: the next migration replaces it, or drops what its set lacks.
CREATE TABLE IF NOT EXISTS farrier.schema_objects (
    kind       text NOT NULL CHECK (kind IN ('function', 'view', 'trigger', 'rights')),
    name       text NOT NULL,  -- of its file; a trigger's is TABLE.TRIGGER
    source     text NOT NULL,  -- text of its file
    definition text,           -- hash of what the server has made of it; null for rights
    PRIMARY KEY (kind, name)
);
