-- Records which set was applied, and by which release.
INSERT INTO farrier.schema_set (hash, tables, release, server)
VALUES ($1, $2, $3, current_setting('server_version_num')::integer / 10000)
    ON CONFLICT (only_one) DO UPDATE
   SET hash = excluded.hash, tables = excluded.tables, release = excluded.release, server = excluded.server,
       applied_at = statement_timestamp()
