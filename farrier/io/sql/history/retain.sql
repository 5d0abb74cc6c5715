-- Executes the next step of the pass over old history, if the step is due and no other controller executes it.
SELECT r.due_in, r.ended, r.looked, r.deleted, r.took FROM farrier.retain_history($1, $2, $3, $4) r
