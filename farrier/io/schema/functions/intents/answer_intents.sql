-- Records the responses of a commit to intents. Finds each intent by its id: between two ANALYZE the planner expects next to no
-- pending intents, and in a storm every commit would scan all of them. The expression on status therefore matches no index of
-- pending intents. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.answer_intents(answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) r (intent bigint, status text, reason text)
     WHERE i.id = r.intent AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (a ->> 'intent')::bigint FROM jsonb_array_elements(answers) a));
END $$;
