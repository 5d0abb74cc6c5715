-- Makes the COMMIT of the transaction wait until it is on disk, independent of the setting of the session. Returns true.
CREATE OR REPLACE FUNCTION farrier.on_disk() RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
    SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                                 ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
$$;
