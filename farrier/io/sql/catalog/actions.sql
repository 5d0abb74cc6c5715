-- Replaces the actions of intents for nodes.
WITH want AS (SELECT * FROM unnest($1::text[], $2::integer[], $3::boolean[]) AS w (action, since, while_paused)),
     gone AS (DELETE FROM farrier.actions a WHERE NOT EXISTS (SELECT FROM want w WHERE w.action = a.action))
INSERT INTO farrier.actions (action, since, while_paused) SELECT action, since, while_paused FROM want
    ON CONFLICT (action) DO UPDATE SET since = excluded.since, while_paused = excluded.while_paused
