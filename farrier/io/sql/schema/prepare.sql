-- The place where migrations are recorded; it cannot be a migration itself.
CREATE SCHEMA IF NOT EXISTS farrier;
CREATE TABLE IF NOT EXISTS farrier.schema_migrations (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- farrier.now() does not exist yet
)
