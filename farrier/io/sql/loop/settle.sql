-- Settles commits whose replies were lost: after this statement, each has happened or never will. Returns those that have.
SELECT id, at FROM farrier.settle_runs($1, $2, $3, $4)
