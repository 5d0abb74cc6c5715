-- Returns the conditions that a health report states, at most 100: each alert, and not_ok for `ok: false` without an
-- alert that blocks scheduling. Long texts are cut, because they are keys of an index and are shown in lists, and control
-- characters become spaces. Called by note_health.
CREATE OR REPLACE FUNCTION farrier.health_conditions(health jsonb) RETURNS TABLE (id text, target text, message text, requested text)
    LANGUAGE sql IMMUTABLE AS $$
    WITH alerts AS (
        SELECT left(plain_text(a ->> 'id'), 128) AS id, left(plain_text(coalesce(a ->> 'target', '')), 128) AS target,
               max(left(plain_text(coalesce(a ->> 'message', '')), 500)) AS message,
               bool_or(coalesce((a ->> 'blocks_scheduling')::boolean, false)) AS blocks
          FROM jsonb_array_elements(coalesce(health -> 'alerts', '[]')) a
         GROUP BY 1, 2
    )
    SELECT a.id, a.target, a.message, CASE WHEN a.blocks THEN 'quarantine' ELSE 'note' END
      FROM (SELECT * FROM alerts ORDER BY blocks DESC, id COLLATE "C", target COLLATE "C" LIMIT 100) a
     UNION ALL
    SELECT 'not_ok', '', 'the agent reports ok: false', 'quarantine'
     WHERE health -> 'ok' = 'false' AND NOT EXISTS (SELECT FROM alerts a WHERE a.blocks OR (a.id, a.target) = ('not_ok', ''))
$$;
