-- Settles commits whose replies were lost: after this statement, each commit has happened or never will. Returns the
-- runs that were committed.
SELECT id, at FROM farrier.settle_runs($1, $2, $3, $4)
