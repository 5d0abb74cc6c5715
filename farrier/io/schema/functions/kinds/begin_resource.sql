-- Begins a resource in its kind's first state. FR409 for another state, and while the kind has no states. BEFORE INSERT trigger
-- on the table of every kind; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.begin_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first text := (SELECT v.value FROM initial_values v WHERE v.kind = TG_ARGV[0] AND v.layer = 'state');
BEGIN
    IF first IS NULL THEN
        RAISE EXCEPTION 'kind % has no states yet', TG_ARGV[0]
            USING ERRCODE = 'FR409', HINT = 'farrier db migrate fills in kinds that come with farrier, farrier kind install others.';
    END IF;
    NEW.state := coalesce(NEW.state, first);
    IF NEW.state <> first THEN
        RAISE EXCEPTION 'a % does not begin as %', replace(TG_ARGV[0], '_', ' '), NEW.state
            USING ERRCODE = 'FR409', HINT = format('It begins as %s.', first);
    END IF;
    RETURN NEW;
END $$;
