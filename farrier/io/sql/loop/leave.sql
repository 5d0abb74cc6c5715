-- Removes the row of a controller that stops, and notifies the other controllers, which distribute the shards again.
-- Shards that it has not given back then have no owner. The marks of its steps stay, if there are any.
WITH unused AS (DELETE FROM farrier.marks m WHERE m.controller = $1 AND m.steps = '{}'),
     left_now AS (DELETE FROM farrier.controllers c WHERE c.id = $1 RETURNING c.id)
SELECT id, pg_notify('farrier_wake', 'shards') FROM left_now
