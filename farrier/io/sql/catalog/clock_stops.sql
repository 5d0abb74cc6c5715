-- Replaces the conditions that stop the clocks of limits.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS w (kind, state, fact, value)),
     gone AS (DELETE FROM farrier.clock_stops s
               WHERE NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.state, w.fact, w.value) = (s.kind, s.state, s.fact, s.value)))
INSERT INTO farrier.clock_stops (kind, state, fact, value) SELECT kind, state, fact, value FROM want
    ON CONFLICT DO NOTHING
