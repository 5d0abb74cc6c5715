-- Returns the runs whose new login could exceed login_cap within login_window at its BMC; these runs are decided again, with the
-- logins that other nodes have made there meanwhile. Locks the BMCs (lock_keys, purpose bmc_login): commits that count the logins of
-- one BMC take turns, and each reads the logins of the previous one. A commit that waits here holds only the rows of its own runs,
-- for which no other commit waits, and all commits lock in one order, so they cannot deadlock. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.over_login_cap(logins jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    cap    integer := (farrier.read_constants()).login_cap;
    recent timestamptz := farrier.now() - (farrier.read_constants()).login_window;
    asked  jsonb := (SELECT jsonb_agg(jsonb_build_object('run', r.run, 'endpoint', farrier.bmc_endpoint_of(r.address), 'tries', r.tries))
                       FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz, tries jsonb)
                       JOIN farrier.nodes n ON n.id = r.run
                      WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL);
BEGIN
    IF asked IS NULL THEN RETURN '{}'; END IF;
    PERFORM farrier.lock_keys('bmc_login', ARRAY(SELECT DISTINCT a.endpoint FROM jsonb_to_recordset(asked) a (endpoint text)));
    -- A statement of its own, so that it reads rows that were committed while the previous statement waited for the
    -- locks.
    RETURN ARRAY(
        SELECT a.run
          FROM (SELECT r.*, row_number() OVER (PARTITION BY r.endpoint ORDER BY r.run) - 1 AS beside
                  FROM jsonb_to_recordset(asked) r (run bigint, endpoint text, tries jsonb)) a
         WHERE a.beside
               + (SELECT count(*) FROM jsonb_array_elements_text(a.tries) t WHERE t::timestamptz > recent)
               + (SELECT count(*) FROM farrier.bmc_logins l
                   WHERE l.endpoint = a.endpoint AND l.node_id <> a.run AND l.at > recent) > cap);
END $$;
