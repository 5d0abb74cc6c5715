-- Refuses a decommission in a mode that cannot prove the cleaning that the node's site requires (FR409), so that a client learns this at
-- once, also while no controller runs. Controllers check it again when they answer. Called by validate_intent.
CREATE OR REPLACE FUNCTION farrier.refuse_mode(of_node bigint, mode text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    requiring text := (
        SELECT r.name FROM nodes n JOIN maas_regions r ON r.name = n.site AND r.ended_at IS NULL
         WHERE n.id = of_node AND r.requires = 'outside'
           AND EXISTS (SELECT FROM workflow_modes m WHERE m.mode = refuse_mode.mode AND m.own_system));
BEGIN
    IF requiring IS NOT NULL THEN
        RAISE EXCEPTION 'decommission: mode % gives no evidence from outside the machine''s system, but cleaning.require of site % is outside', mode, requiring
            USING ERRCODE = 'FR409', HINT = 'Use mode reimage, which MAAS cleans.';
    END IF;
END $$;
