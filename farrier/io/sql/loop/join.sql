-- Inserts the row of a controller that starts.
INSERT INTO farrier.controllers (id, name, release, kinds, lags, started_at)
SELECT $1, $2, $3, $4::text[], array_fill(0::float8, ARRAY[cardinality($4::text[])]), farrier.now() WHERE farrier.on_disk()
