-- Returns which session has locked rows of these resources: rows of the kind's table, and rows of tables in the same schema that have
-- a column KIND_id, such as node_id. `holder` is a text with the pid, the application, and the time at which the transaction began;
-- only a role with pg_read_all_stats sees this time of other logins. A locked row has the transaction in xmax, or a multixact of
-- several transactions; pg_locks has the session of a transaction that is running.
CREATE OR REPLACE FUNCTION farrier.lock_holders(of_kind text, ids bigint[]) RETURNS TABLE (id bigint, holder text)
    LANGUAGE plpgsql STABLE SET TimeZone = 'UTC' AS $$
#variable_conflict use_column
DECLARE
    relation regclass := (farrier.kind_of(of_kind)).relation;
    rows_of text := concat_ws(' UNION ALL ', format('SELECT id, xmax FROM %s WHERE id = ANY ($1)', relation),
        (SELECT string_agg(format('SELECT %1$I, xmax FROM %2$s WHERE %1$I = ANY ($1)', a.attname, c.oid::regclass), ' UNION ALL ')
           FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = of_kind || '_id' AND a.atttypid = 'bigint'::regtype
          WHERE c.relkind = 'r' AND c.relnamespace = (SELECT k.relnamespace FROM pg_class k WHERE k.oid = relation)));
    locked record;
    holders xid[];
BEGIN
    FOR locked IN EXECUTE format('SELECT DISTINCT r.id, r.holder FROM (%s) r (id, holder) WHERE r.holder <> ''0''', rows_of) USING ids LOOP
        holders := ARRAY[locked.holder];
        IF NOT EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = locked.holder) THEN
            BEGIN
                holders := ARRAY(SELECT m.xid FROM pg_get_multixact_members(locked.holder) m);
            EXCEPTION WHEN internal_error OR invalid_parameter_value THEN
                CONTINUE;  -- the transaction has ended, and no multixact has this number
            END;
        END IF;
        RETURN QUERY
        SELECT locked.id, concat('session ', a.pid, ', application ' || nullif(a.application_name, ''),
                                 ', in a transaction since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SS "UTC"'))
          FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
         WHERE l.locktype = 'transactionid' AND l.granted AND l.transactionid = ANY (holders);
    END LOOP;
END $$;
