-- Makes a table the table of a kind, or brings its triggers and rights up to date.
SELECT farrier.make_kind($1, $2::text::regclass)
