-- Enrolls many agents in one transaction, each as enroll_agent does: an array of {place, token, facts, key_digest, version,
-- boot_id}. Returns one row for each: what enroll_agent returns, or the SQLSTATE (fault), text (reason) and hint of its error,
-- which fails no other. Waits for no other transaction, except if patient: the fault 55P03 says that one has locked rows of the
-- enrolment (try it alone).
CREATE OR REPLACE FUNCTION farrier.enroll_agents(enrolments jsonb, patient boolean DEFAULT false)
    RETURNS TABLE (place integer, node_name text, refused text, fault text, reason text, hint text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    given record;
    answer record;
    restored boolean := is_restored();
    enrolled bigint[];
BEGIN
    IF NOT patient THEN SET LOCAL lock_timeout = '1ms'; END IF;
    FOR given IN
        SELECT g.* FROM jsonb_to_recordset(enrolments) AS g (place integer, token text, facts jsonb, key_digest text, version text, boot_id uuid)
    LOOP
        BEGIN
            answer := enroll(given.token, given.facts, given.key_digest, given.version, given.boot_id, restored);
            IF answer.spent THEN enrolled := enrolled || answer.node; END IF;
            RETURN QUERY SELECT given.place, answer.node_name, answer.refused, NULL::text, NULL::text, NULL::text;
        EXCEPTION WHEN SQLSTATE 'FR400' OR SQLSTATE 'FR403' OR SQLSTATE 'FR409' OR lock_not_available THEN
            GET STACKED DIAGNOSTICS fault = RETURNED_SQLSTATE, reason = MESSAGE_TEXT, hint = PG_EXCEPTION_HINT;
            RETURN QUERY SELECT given.place, NULL::text, NULL::text, fault, reason, hint;
        END;
    END LOOP;
    INSERT INTO wakes (kind, resource, quiet) SELECT 'node', n, true FROM unnest(enrolled) n;
END $$;
