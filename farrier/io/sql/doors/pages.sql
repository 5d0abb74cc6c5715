-- Renews the door $1 of pages; returns whether it is listed.
SELECT farrier.pulse_pages_door($1, $2, $3)
