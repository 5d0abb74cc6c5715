-- Marks steps before they act.
SELECT id FROM farrier.mark_effects($1, $2, $3, $4, $5, $6) id
