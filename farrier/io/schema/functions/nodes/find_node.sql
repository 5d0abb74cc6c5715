-- Returns the id of a node that is not deleted, by its name or id. FR404 if there is none.
CREATE OR REPLACE FUNCTION farrier.find_node(given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    found_status text;
BEGIN
    IF given ~ '^[0-9]{1,18}$' THEN
        SELECT id, status INTO found_id, found_status FROM nodes WHERE id = given::bigint;
    ELSE
        SELECT id, status INTO found_id, found_status FROM nodes WHERE name = given AND status <> 'deleted';
    END IF;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no node is named % (expected a name or an ID)', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = 'List the nodes to find its name.';
    END IF;
    IF found_status = 'deleted' THEN
        RAISE EXCEPTION 'node % is deleted', given
            USING ERRCODE = 'FR404', HINT = 'Register the node again; it gets a new ID.';
    END IF;
    RETURN found_id;
END $$;
