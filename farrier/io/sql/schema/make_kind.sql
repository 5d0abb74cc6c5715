-- Registers a table for a kind, or updates its triggers and rights.
SELECT farrier.make_kind($1, $2::text::regclass)
