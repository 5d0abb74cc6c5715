-- Returns the runs whose new login could be one failed login too many at its BMC (login_cap within login_window); they are
-- decided again, with what other nodes have tried there meanwhile. Locks the BMCs (lock_keys, purpose bmc_login), so commits that
-- count the logins of one BMC take turns, and each sees what the one before has committed. A commit that waits here holds only
-- the rows of its own runs, which no other commit waits for, and all lock in one order, so they cannot deadlock. Called by
-- write_nodes.
CREATE OR REPLACE FUNCTION farrier.over_login_cap(logins jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    places text[];
    cap    integer := (farrier.read_constants()).login_cap;
    recent timestamptz := farrier.now() - farrier.login_window();
BEGIN
    places := ARRAY(SELECT DISTINCT farrier.bmc_endpoint_of(r.address)
                      FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz)
                      JOIN farrier.nodes n ON n.id = r.run
                     WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL);
    IF places = '{}' THEN RETURN '{}'; END IF;
    PERFORM farrier.lock_keys('bmc_login', places);
    -- A statement of its own: it sees what was committed while the locks were waited for.
    RETURN ARRAY(
        WITH asked AS (
            SELECT r.run, farrier.bmc_endpoint_of(r.address) AS endpoint,
                   (SELECT count(*) FROM jsonb_array_elements_text(r.tries) t
                     WHERE t::timestamptz > recent) AS own
              FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz, tries jsonb)
              JOIN farrier.nodes n ON n.id = r.run
             WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL
        )
        SELECT a.run FROM (SELECT *, row_number() OVER (PARTITION BY endpoint ORDER BY run) - 1 AS beside FROM asked) a
         WHERE a.own + a.beside
               + (SELECT count(*) FROM farrier.bmc_logins l
                   WHERE l.endpoint = a.endpoint AND l.node_id <> a.run AND l.at > recent) > cap);
END $$;
