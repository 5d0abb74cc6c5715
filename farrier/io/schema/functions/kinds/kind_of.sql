-- Returns the row of a kind in kinds. FR400 for an unknown kind and, if template is true, for a kind whose table is not like
-- farrier.resources; FR409 for a kind whose table was dropped.
CREATE OR REPLACE FUNCTION farrier.kind_of(of_kind text, template boolean DEFAULT false) RETURNS farrier.kinds
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found kinds;
BEGIN
    SELECT k.* INTO found FROM kinds k WHERE k.kind = of_kind AND k.from_template >= template;
    IF found.kind IS NULL AND EXISTS (SELECT FROM kinds k WHERE k.kind = of_kind) THEN
        RAISE EXCEPTION 'kind % has its own tables, which this function does not read', of_kind
            USING ERRCODE = 'FR400', HINT = format('farrier %s --help lists the commands of the kind.', replace(of_kind, '_', ' '));
    END IF;
    IF found.kind IS NULL THEN
        RAISE EXCEPTION 'unknown kind %', coalesce(quote_literal(of_kind), 'null')
            USING ERRCODE = 'FR400',
                  HINT = coalesce((SELECT 'Known: ' || string_agg(k.kind, ', ' ORDER BY k.kind) FROM kinds k), 'No kind is installed.');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = found.relation) THEN
        RAISE EXCEPTION 'the table of kind % was dropped', of_kind
            USING ERRCODE = 'FR409', HINT = format('Run farrier kind remove %s to remove the kind, or farrier kind install to create its table again.', of_kind);
    END IF;
    RETURN found;
END $$;
