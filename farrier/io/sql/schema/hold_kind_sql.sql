-- Passes the SQL of a kind to run_kind_sql in a setting of the transaction, because DO takes no parameters.
SELECT set_config('farrier.kind_sql', $1, true)
