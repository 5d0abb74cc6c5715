-- After lost replies: from now on these commits have happened, or never will. Returns those that have.
SELECT id, at FROM farrier.settle_runs($1, $2, $3, $4)
