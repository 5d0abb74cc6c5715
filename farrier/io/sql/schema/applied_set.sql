-- Returns which set was applied last, and by which release; `comparable` is whether the server still has the same major
-- version, because another version may write definitions differently. Returns no row before the first set.
SELECT hash, tables, release, server = current_setting('server_version_num')::integer / 10000 AS comparable FROM farrier.schema_set
