-- Replaces the actions of intents.
WITH want AS (SELECT * FROM unnest($1::text[], $2::integer[], $3::boolean[], $4::boolean[], $5::jsonb[]) AS w (action, since, interrupts, while_paused, params)),
     gone AS (DELETE FROM farrier.actions a WHERE NOT EXISTS (SELECT FROM want w WHERE w.action = a.action))
INSERT INTO farrier.actions (action, since, interrupts, while_paused, params) SELECT action, since, interrupts, while_paused, params FROM want
    ON CONFLICT (action) DO UPDATE SET since = excluded.since, interrupts = excluded.interrupts, while_paused = excluded.while_paused, params = excluded.params
