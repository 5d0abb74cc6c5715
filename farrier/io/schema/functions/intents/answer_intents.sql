-- Records the responses of a commit to intents. Finds each intent by its id. The planner expects almost no pending
-- intents until the next ANALYZE, so a plan with the index of pending intents would read all of them in every commit
-- when there are many. The expression on status keeps the planner from this index. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.answer_intents(answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) r (intent bigint, status text, reason text)
     WHERE i.id = r.intent AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (a ->> 'intent')::bigint FROM jsonb_array_elements(answers) a));
END $$;
