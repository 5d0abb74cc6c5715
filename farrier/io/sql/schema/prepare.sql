-- The places where migrations are recorded, and who migrates; they cannot be a migration themselves.
CREATE SCHEMA IF NOT EXISTS farrier;
CREATE TABLE IF NOT EXISTS farrier.schema_migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- farrier.now() does not exist yet
);
CREATE TABLE IF NOT EXISTS farrier.migrator (
    only_one      boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    pid           integer,  -- of the session that migrates; null for none
    login         text,
    backend_start timestamptz
);
INSERT INTO farrier.migrator DEFAULT VALUES ON CONFLICT DO NOTHING
