-- Returns which set was applied last, and by which release; `comparable` if the server has the same major version as then, because
-- another one may write a definition differently. No row before the first set.
SELECT hash, tables, release, server = current_setting('server_version_num')::integer / 10000 AS comparable FROM farrier.schema_set
