-- Returns the reports of one monitor (null: of all monitors) that were not taken, the newest first.
SELECT row_to_json(x)::text
  FROM (
    SELECT r.monitor, r.node, r.id, r.target, r.verdict, r.reason, r.times, r.first_at, r.last_at
      FROM farrier.monitor_refusals r
     WHERE $1::text IS NULL OR r.monitor = $1
     ORDER BY r.last_at DESC, r.monitor, r.node, r.id, r.target
     LIMIT $2
  ) x
