-- The regions of the sites that this controller has configured; those that it does not name stay as they are.
SELECT farrier.set_sites($1::jsonb)
