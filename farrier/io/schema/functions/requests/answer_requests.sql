-- Records the responses of a commit to intents of resources of a kind; an intent with a response does not change. Finds each intent
-- by its id: the expressions on the other columns keep the planner from the index of pending intents (see answer_intents). Called by
-- write_resources.
CREATE OR REPLACE FUNCTION farrier.answer_requests(of_kind text, answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.resource_intents i
       SET status = CASE WHEN a.accepted THEN 'accepted' ELSE 'rejected' END, reason = nullif(a.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) a (run bigint, request bigint, accepted boolean, reason text)
     WHERE i.id = a.request AND i.kind || '' = of_kind AND i.resource_id + 0 = a.run AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (e ->> 'request')::bigint FROM jsonb_array_elements(answers) e));
END $$;
