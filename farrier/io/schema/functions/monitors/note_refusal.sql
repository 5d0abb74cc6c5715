-- Lists a report that was not taken; reports of the same condition share a row. Called by record_reports and refuse_truncated, which
-- then call count_refusals.
CREATE OR REPLACE FUNCTION farrier.note_refusal(of_monitor text, node text, id text, target text, verdict text, reason text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO monitor_refusals AS r (monitor, node, id, target, verdict, reason)
    VALUES (of_monitor, left(plain_text(coalesce(note_refusal.node, '')), 253), left(plain_text(coalesce(note_refusal.id, '')), 128),
            left(plain_text(coalesce(note_refusal.target, '')), 128), note_refusal.verdict, left(note_refusal.reason, 500))
        ON CONFLICT ON CONSTRAINT monitor_refusals_pkey DO UPDATE
       SET verdict = excluded.verdict, reason = excluded.reason, times = r.times + 1, last_at = excluded.last_at
$$;
