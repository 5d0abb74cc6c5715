-- Replaces the actions of these kinds.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::boolean[]) AS w (kind, action, description, params, interrupts)),
     gone AS (DELETE FROM farrier.kind_actions a WHERE a.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.action) = (a.kind, a.action)))
INSERT INTO farrier.kind_actions (kind, action, description, params, interrupts) SELECT kind, action, description, params, interrupts FROM want
    ON CONFLICT (kind, action) DO UPDATE SET description = excluded.description, params = excluded.params, interrupts = excluded.interrupts
