-- Which set was applied last, and by which release; `comparable` while the server writes definitions as it did then. No row before
-- the first.
SELECT hash, tables, release,
       (server, namespace) = (current_setting('server_version_num')::integer / 10000, 'farrier'::regnamespace::oid) AS comparable
  FROM farrier.schema_set
