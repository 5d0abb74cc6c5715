-- Which set was applied last, by which release, and on which major version of PostgreSQL; no row before the first.
SELECT hash, tables, release, server, current_setting('server_version_num')::integer / 10000 AS server_now FROM farrier.schema_set
