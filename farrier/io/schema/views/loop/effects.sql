-- Steps that may have acted outside and whose ends are not recorded: those under way, and those that a crash cut.
CREATE OR REPLACE VIEW farrier.effects AS
SELECT m.kind, s.key::bigint AS resource, s.value ->> 'step' AS step, (s.value ->> 'begun_at')::timestamptz AS begun_at, m.controller
  FROM farrier.marks m CROSS JOIN LATERAL jsonb_each(m.steps) s;
