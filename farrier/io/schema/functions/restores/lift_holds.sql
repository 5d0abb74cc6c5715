-- Lifts holds after a restore: of the resources `of_names` of a kind (null: of every held resource of the kind, or of all kinds if
-- of_kind is null) at a site (null: at all sites). Without a choice, skips resources with a difference or a live workflow. With a choice,
-- which needs names, lifts each of them: `resume` continues from the state in the backup; `adopt` and `end` are for nodes. The next
-- run of a node carries its choice out and lifts the hold. Returns each selected resource with why it is still held; null if it is not.
-- FR400 for malformed arguments, FR404 for a name that is not held.
CREATE OR REPLACE FUNCTION farrier.lift_holds(of_kind text, of_names text[], of_site text, of_choice text, of_reason text, requested_by text DEFAULT NULL)
    RETURNS TABLE (kind text, name text, why text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    missing text;
BEGIN
    IF coalesce(of_reason, '') = '' OR length(of_reason) > 500 OR length(requested_by) > 255 THEN
        RAISE EXCEPTION 'the reason for lifting a hold must have 1 to 500 characters, and the name of the operator at most 255' USING ERRCODE = 'FR400';
    ELSIF of_choice <> ALL (ARRAY['resume', 'adopt', 'end']) THEN
        RAISE EXCEPTION 'expected the choice resume, adopt or end, got %', quote_literal(left(of_choice, 80)) USING ERRCODE = 'FR400';
    ELSIF of_names IS NOT NULL AND of_kind IS NULL THEN
        RAISE EXCEPTION 'names need their kind' USING ERRCODE = 'FR400', HINT = 'Add the kind, such as node.';
    ELSIF of_choice IS NOT NULL AND of_names IS NULL THEN
        RAISE EXCEPTION 'a choice is made for each resource, not for all' USING ERRCODE = 'FR400', HINT = 'Name the resources, or omit the choice.';
    ELSIF of_choice <> 'resume' AND of_kind <> 'node' THEN
        RAISE EXCEPTION 'the choice % is for nodes; for %, expected resume', of_choice, of_kind USING ERRCODE = 'FR400';
    END IF;
    SELECT n.name INTO missing
      FROM unnest(of_names) n (name) LEFT JOIN list_holds(of_kind, of_site) h ON n.name IN (h.name, h.id::text)
     WHERE h.id IS NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% % is not held', of_kind, quote_literal(left(missing, 80)) USING ERRCODE = 'FR404', HINT = 'List the holds with farrier db holds.';
    END IF;
    RETURN QUERY
    WITH judged AS MATERIALIZED (
        SELECT h.kind, h.id, h.name,
               CASE WHEN of_choice = 'resume' AND h.kind <> 'node' THEN NULL
                    WHEN of_choice IS NOT NULL THEN 'farrier carries out the choice ' || of_choice
                    WHEN h.choice IS NOT NULL THEN 'farrier carries out the choice ' || h.choice
                    ELSE coalesce(h.difference, 'held after a restore: a live ' || n.live_workflow_kind) END AS why
          FROM list_holds(of_kind, of_site) h LEFT JOIN nodes n ON h.kind = 'node' AND n.id = h.id
         WHERE of_names IS NULL OR h.name = ANY (of_names) OR h.id::text = ANY (of_names)
    ), changed AS (
        UPDATE restore_holds h
           SET choice = of_choice, reason = of_reason, lifted_by = coalesce(lift_holds.requested_by, session_user),
               lifted_at = CASE WHEN j.why IS NULL THEN farrier.now() END
          FROM judged j
         WHERE h.kind = j.kind AND h.id = j.id AND h.lifted_at IS NULL AND (of_choice IS NOT NULL OR j.why IS NULL)
        RETURNING h.kind, h.id
    ), woken AS (
        INSERT INTO wakes (kind, resource) SELECT c.kind, c.id FROM changed c ORDER BY c.kind, c.id
    )
    SELECT j.kind, j.name, j.why FROM judged j ORDER BY j.kind <> 'node', j.kind, j.name;
END $$;
