-- Replaces the actions of these kinds. Blanks separate the states that accept an action.
WITH want AS (SELECT kind, action, description, params, string_to_array(states, ' ') AS states, instead, interrupts
                FROM unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::text[], $7::boolean[])
                  AS w (kind, action, description, params, states, instead, interrupts)),
     gone AS (DELETE FROM farrier.kind_actions a WHERE a.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.action) = (a.kind, a.action)))
INSERT INTO farrier.kind_actions (kind, action, description, params, states, instead, interrupts)
SELECT kind, action, description, params, states, instead, interrupts FROM want
    ON CONFLICT (kind, action) DO UPDATE SET description = excluded.description, params = excluded.params,
       states = excluded.states, instead = excluded.instead, interrupts = excluded.interrupts
