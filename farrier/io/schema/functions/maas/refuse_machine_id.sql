-- A region has no machine of another form, and each that is asked for costs it a request.
CREATE OR REPLACE FUNCTION farrier.refuse_machine_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'maas_id % is no system id of MAAS', quote_literal(left(NEW.maas_id, 64))
        USING ERRCODE = 'FR400', HINT = 'It has letters and digits alone, mostly six; the host name is something else.';
END $$;
