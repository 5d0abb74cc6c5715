-- The table that a kind was made with; no row for one that was not made.
SELECT relation::text AS relation FROM farrier.kinds WHERE kind = $1
