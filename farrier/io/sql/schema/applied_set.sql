-- Which set was applied last, and by which release; `comparable` on the major version of PostgreSQL that it was applied on: another
-- one may word a definition differently. No row before the first.
SELECT hash, tables, release, server = current_setting('server_version_num')::integer / 10000 AS comparable FROM farrier.schema_set
