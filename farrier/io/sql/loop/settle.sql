-- Settles commits whose replies were lost: the commit of each returned run has happened, or never will.
SELECT id, happened, at FROM farrier.settle_runs($1, $2, $3, $4)
