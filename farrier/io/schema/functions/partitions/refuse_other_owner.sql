-- Raises FR409 for a member that belongs to another owner.
CREATE OR REPLACE FUNCTION farrier.refuse_other_owner(of_id bigint, port text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, m.owner INTO found FROM ib_partitions p JOIN ib_members m ON m.partition = p.id WHERE p.id = of_id AND m.guid = port;
    RAISE EXCEPTION 'port % is already a member of IB partition %, of owner %', port, found.name, found.owner
        USING ERRCODE = 'FR409', HINT = 'Only this owner can end the membership.';
END $$;
