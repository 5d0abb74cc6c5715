-- Takes the next step of the pass over old history, if it is due and no other replica takes it.
SELECT r.due_in, r.ended, r.looked, r.deleted, r.took FROM farrier.retain_history($1, $2, $3, $4) r
