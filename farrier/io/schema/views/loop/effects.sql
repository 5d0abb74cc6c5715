-- Steps that may have called outside services and whose ends are not recorded: running steps, and steps that a crash ended.
CREATE OR REPLACE VIEW farrier.effects AS
SELECT m.kind, s.key::bigint AS resource, s.value ->> 'step' AS step, (s.value ->> 'begun_at')::timestamptz AS begun_at, m.controller
  FROM farrier.marks m CROSS JOIN LATERAL jsonb_each(m.steps) s;
