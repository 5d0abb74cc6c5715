-- Whoever joins, and a deletion that has seen no members, meet at the partition's row: one of the two is refused.
CREATE OR REPLACE FUNCTION farrier.admit_member() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM ib_partitions p WHERE p.id = NEW.partition FOR SHARE;
    PERFORM refuse_joining(NEW.partition);
    RETURN NULL;
END $$;
