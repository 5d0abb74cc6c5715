-- Removes the row of a controller that has given its shards back; if it has not, the others find them without an owner. The marks
-- of its steps stay, if there are any.
WITH unused AS (DELETE FROM farrier.marks m WHERE m.controller = $1 AND m.steps = '{}')
DELETE FROM farrier.controllers c WHERE c.id = $1
