-- The answers of a commit, each found by its id, whatever the planner thinks. Between two ANALYZE it takes what is
-- pending for next to nothing, and in a storm every commit would walk over all of it: so the condition is one that the
-- index of what is pending does not serve.
CREATE OR REPLACE FUNCTION farrier.answer_intents(answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) r (intent bigint, status text, reason text)
     WHERE i.id = r.intent AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (a ->> 'intent')::bigint FROM jsonb_array_elements(answers) a));
END $$;
