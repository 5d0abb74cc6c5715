-- Inserts the row of a controller that starts.
INSERT INTO farrier.controllers (id, name, release, kinds, lags, started_at, timeline)
SELECT $1, $2, $3, $4::text[], array_fill(0::float8, ARRAY[cardinality($4::text[])]), farrier.now(),
       left(pg_walfile_name(pg_current_wal_lsn()), 8)
 WHERE farrier.on_disk()
