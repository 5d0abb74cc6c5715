-- Deletes all wakes but one of each resource whose kind no living controller runs, so that wakes do not accumulate: the next run's
-- snapshot includes the changes of all of them.
DELETE FROM farrier.wakes w
 WHERE NOT EXISTS (SELECT FROM farrier.controllers c WHERE NOT c.expired AND w.kind = ANY (c.kinds))
   AND EXISTS (SELECT FROM farrier.wakes o WHERE o.kind = w.kind AND o.resource = w.resource AND o.id < w.id)
