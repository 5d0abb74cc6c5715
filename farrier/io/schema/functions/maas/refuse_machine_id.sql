-- Raises FR400 for a maas_id that is no system id of MAAS: no region has such a machine, and each reading of it would cost a
-- request. Trigger function.
CREATE OR REPLACE FUNCTION farrier.refuse_machine_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'maas_id % is no system id of MAAS', quote_literal(left(NEW.maas_id, 64))
        USING ERRCODE = 'FR400', HINT = 'It has letters and digits alone, mostly six; the host name is something else.';
END $$;
