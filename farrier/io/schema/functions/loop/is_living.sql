-- Returns whether a resource exists and has not ended. Raises for a kind without a table; see relation_of.
CREATE OR REPLACE FUNCTION farrier.is_living(of_kind text, of_id bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found boolean;
BEGIN
    CASE of_kind
        WHEN 'node' THEN RETURN EXISTS (SELECT FROM nodes n WHERE n.id = of_id AND n.status <> 'deleted');
        WHEN 'maas_region' THEN RETURN EXISTS (SELECT FROM maas_regions r WHERE r.id = of_id);
        ELSE
            EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE id = $1 AND ended_at IS NULL)', relation_of(of_kind)) INTO found USING of_id;
            RETURN found;
    END CASE;
END $$;
