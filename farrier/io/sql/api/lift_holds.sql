-- Lifts holds after a restore, and returns each selected resource with why it is still held.
SELECT row_to_json(h)::text FROM farrier.lift_holds($1, $2, $3, $4, $5, $6) h
