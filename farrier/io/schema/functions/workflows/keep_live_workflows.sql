-- Refuses a TRUNCATE of workflows while a node has a live workflow of the kind (FR409), because TRUNCATE fires no
-- check_pair_of_row. A TRUNCATE of nodes that also empties the workflows is accepted. Trigger on both tables of
-- workflows; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.keep_live_workflows() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    owner text := (SELECT n.name FROM nodes n WHERE n.live_workflow_kind = TG_ARGV[0] ORDER BY n.id LIMIT 1);
BEGIN
    IF owner IS NOT NULL THEN
        RAISE EXCEPTION 'expected no node with a live % in a TRUNCATE of %; got node %', TG_ARGV[0], TG_TABLE_NAME, owner
            USING ERRCODE = 'FR409', HINT = 'To remove workflows that have ended, use DELETE ... WHERE ended_at IS NOT NULL.';
    END IF;
    RETURN NULL;
END $$;
