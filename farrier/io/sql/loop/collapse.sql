-- Leaves one wake of each resource whose kind no living controller runs, so that they do not grow without end: its next run sees
-- everything that the others were inserted for.
DELETE FROM farrier.wakes w
 WHERE NOT EXISTS (SELECT FROM farrier.controllers c WHERE NOT c.expired AND w.kind = ANY (c.kinds))
   AND EXISTS (SELECT FROM farrier.wakes o WHERE o.kind = w.kind AND o.resource = w.resource AND o.id < w.id)
