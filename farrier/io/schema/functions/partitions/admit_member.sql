-- Refuses a member of a partition that is being deleted (FR409). Deferred trigger on ib_members. Locks the partition's row FOR
-- SHARE at COMMIT, so that of a transaction that joins and a deletion that has seen no members one is refused.
CREATE OR REPLACE FUNCTION farrier.admit_member() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM ib_partitions p WHERE p.id = NEW.partition FOR SHARE;
    PERFORM refuse_joining(NEW.partition);
    RETURN NULL;
END $$;
