-- Records that this database is the one in service. With `restored`, also records that it was restored just now.
CREATE OR REPLACE FUNCTION farrier.settle_here(restored boolean) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp
BEGIN ATOMIC
    INSERT INTO farrier.installation AS i (system_identifier, database, relation, restored_at)
    VALUES (farrier.system_identifier(), farrier.database_oid(), 'farrier.installation'::regclass, CASE WHEN restored THEN farrier.now() END)
        ON CONFLICT (one) DO UPDATE
       SET system_identifier = excluded.system_identifier, database = excluded.database, relation = excluded.relation,
           restored_at = coalesce(excluded.restored_at, i.restored_at);
END;
