-- The part of a commit that writes resources by the sections of their runs, $24. The kind's function replaces `writer_of_kind`.
SELECT w.run, w.due_in
  FROM (SELECT CASE WHEN b.lost = '{}' THEN $24::jsonb ELSE farrier.runs_without($24::jsonb, b.lost) END AS changes) c
 CROSS JOIN LATERAL writer_of_kind(c.changes) w
 WHERE c.changes <> '{}'
