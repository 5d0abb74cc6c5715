-- Returns the table of a kind. FR400 for an unknown kind, FR409 for one whose table was dropped; functions that go over all kinds
-- skip such a kind instead.
CREATE OR REPLACE FUNCTION farrier.relation_of(of_kind text) RETURNS regclass
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found regclass;
    there boolean;
BEGIN
    SELECT k.relation, EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation) INTO found, there FROM kinds k WHERE k.kind = of_kind;
    IF found IS NULL THEN
        RAISE EXCEPTION 'unknown kind %', coalesce(quote_literal(of_kind), 'null')
            USING ERRCODE = 'FR400',
                  HINT = coalesce((SELECT 'Known: ' || string_agg(k.kind, ', ' ORDER BY k.kind) FROM kinds k), 'No kind is installed.');
    END IF;
    IF NOT there THEN
        RAISE EXCEPTION 'the table of kind % was dropped', of_kind
            USING ERRCODE = 'FR409', HINT = format('farrier kind remove %s forgets the kind, farrier kind install makes it anew.', of_kind);
    END IF;
    RETURN found;
END $$;
