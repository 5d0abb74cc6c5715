-- Refuses a member of a partition that is being deleted (FR409). Deferred trigger on ib_members: at COMMIT it locks the row of the
-- partition FOR SHARE. If one transaction adds the first member while another transaction deletes the partition, one of
-- the two is refused.
CREATE OR REPLACE FUNCTION farrier.admit_member() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM ib_partitions p WHERE p.id = NEW.partition FOR SHARE;
    PERFORM refuse_joining(NEW.partition);
    RETURN NULL;
END $$;
