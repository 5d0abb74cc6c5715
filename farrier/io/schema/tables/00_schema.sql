-- The version to which this database was migrated, and the program that migrated it. Every migration creates these
-- tables first, even in a database that has them; hence IF NOT EXISTS.

CREATE SCHEMA IF NOT EXISTS farrier;

-- One row: the session that migrates this database, if any. A session that has ended does not count.
CREATE TABLE IF NOT EXISTS farrier.migrator (
    only_one      boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    pid           integer,     -- process ID of the session; null: no session migrates
    login         text,        -- login of the session
    backend_start timestamptz  -- when the session began; a later session may have the same pid
);

-- The versions of the tables. 1 is the baseline; each later version is a step between two releases, which was applied
-- here or is part of the baseline from which this database was created.
CREATE TABLE IF NOT EXISTS farrier.schema_steps (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,                               -- name of the step's file; `baseline` for 1
    checksum   text        NOT NULL,                               -- SHA-256 of the step, or of the baseline's tables
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- farrier.now() does not exist yet
);

-- One row: the set of functions, views, triggers and rights that was applied last.
CREATE TABLE IF NOT EXISTS farrier.schema_set (
    only_one   boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    hash       text        NOT NULL,  -- hash of the sources in schema_objects, and of the comments in the baseline
    tables     text        NOT NULL,  -- hash of the baseline of the program that applied the set
    release    text        NOT NULL,  -- release of that program
    server     integer     NOT NULL,  -- major version of PostgreSQL, on which schema_objects.definition depends
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- The members of the set in schema_set. An object that is listed here belongs to farrier: the next migration replaces
-- it, or drops it if its set lacks it. Only the owner of the schema, and roles to which an operator granted the right,
-- may write here.
CREATE TABLE IF NOT EXISTS farrier.schema_objects (
    kind       text NOT NULL CHECK (kind IN ('function', 'view', 'trigger', 'rights')),
    name       text NOT NULL,  -- name of the object's file; TABLE.TRIGGER for a trigger
    source     text NOT NULL,  -- text of the object's file
    definition text,           -- hash of the definition that the server made of the source; null for rights
    signature  text,           -- parameters and result of a function, as the server writes them; null for other objects
    PRIMARY KEY (kind, name)
);
