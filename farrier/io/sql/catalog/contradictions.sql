-- Replaces the states of machines that contradict their nodes; $2 and $3 are lists separated by blanks.
WITH want AS (SELECT w.state, string_to_array(w.statuses, ' ') AS statuses, string_to_array(w.causes, ' ') AS causes
                FROM unnest($1::text[], $2::text[], $3::text[]) AS w (state, statuses, causes)),
     gone AS (DELETE FROM farrier.contradictions c WHERE NOT EXISTS (SELECT FROM want w WHERE w.state = c.state))
INSERT INTO farrier.contradictions (state, statuses, causes) SELECT state, statuses, causes FROM want
    ON CONFLICT (state) DO UPDATE SET statuses = excluded.statuses, causes = excluded.causes
