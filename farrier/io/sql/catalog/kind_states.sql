-- Replaces the states of these kinds.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::boolean[], $6::interval[], $7::text[])
                            AS w (kind, layer, state, initial, terminal, sla, why_none)),
     gone AS (DELETE FROM farrier.kind_states s WHERE s.kind IN (SELECT kind FROM want)
               AND NOT EXISTS (SELECT FROM want w WHERE (w.kind, w.layer, w.state) = (s.kind, s.layer, s.state)))
INSERT INTO farrier.kind_states (kind, layer, state, initial, terminal, sla, why_none)
SELECT kind, layer, state, initial, terminal, sla, why_none FROM want
    ON CONFLICT (kind, layer, state) DO UPDATE SET initial = excluded.initial, terminal = excluded.terminal, sla = excluded.sla, why_none = excluded.why_none
