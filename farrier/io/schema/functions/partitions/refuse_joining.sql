-- Refuses a member of a partition that is being deleted or has ended (FR409).
CREATE OR REPLACE FUNCTION farrier.refuse_joining(of_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, p.state INTO found FROM ib_partitions p WHERE p.id = of_id;
    IF found.state IN ('deleting', 'gone') THEN
        RAISE EXCEPTION 'IB partition % is being deleted and takes no members', found.name
            USING ERRCODE = 'FR409', HINT = 'Its name and its number are free again once it is deleted.';
    END IF;
END $$;
