-- The states of these kinds become exactly these.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::boolean[], $4::boolean[], $5::interval[], $6::text[]) AS w (kind, state, initial, terminal, sla, why_none)),
     gone AS (DELETE FROM farrier.kind_states s WHERE s.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.state) = (s.kind, s.state)))
INSERT INTO farrier.kind_states (kind, state, initial, terminal, sla, why_none) SELECT kind, state, initial, terminal, sla, why_none FROM want
    ON CONFLICT (kind, state) DO UPDATE SET initial = excluded.initial, terminal = excluded.terminal, sla = excluded.sla, why_none = excluded.why_none
