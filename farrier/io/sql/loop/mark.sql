-- Marks steps before they begin, and removes the marks of steps whose ends are recorded.
SELECT id FROM farrier.mark_steps($1, $2, $3, $4, $5, $6, $7, $8) id
