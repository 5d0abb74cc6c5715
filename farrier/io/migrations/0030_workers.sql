-- Workers: programs that work on tasks of several nodes, as logins that an operator grants task types to.

-- `farrier.model.node.TaskType`.
CREATE FUNCTION farrier.task_types() RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN '{node.drain,node.uninstall,node.scrub_gpu,node.cleanup_storage,node.validate_clean,node.release_allocations}'::text[];

-- Lets a login take tasks of these types; replaces what it was granted before. The login also needs the role
-- farrier_worker, to be able to call.
CREATE FUNCTION farrier.grant_worker(login text, types text[], site text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_worker.login) THEN
        RAISE EXCEPTION 'no login is named %', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'Create it first: CREATE ROLE ... LOGIN IN ROLE farrier_worker.';
    END IF;
    IF coalesce(cardinality(types), 0) = 0 OR NOT types <@ task_types() THEN
        RAISE EXCEPTION 'expected one or more task types, got %', coalesce(left(types::text, 200), 'null')
            USING ERRCODE = 'FR400', HINT = 'Known: ' || array_to_string(task_types(), ', ');
    END IF;
    INSERT INTO workers AS w (login, types, site) VALUES (grant_worker.login, grant_worker.types, grant_worker.site)
        ON CONFLICT ON CONSTRAINT workers_pkey
        DO UPDATE SET types = excluded.types, site = excluded.site, granted_at = excluded.granted_at, granted_by = excluded.granted_by;
END $$;

-- Takes the grant away; what the login has claimed is issued again when the lease runs out.
CREATE FUNCTION farrier.revoke_worker(login text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM workers w WHERE w.login = revoke_worker.login;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'login % is not granted any tasks', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'SELECT login FROM farrier.workers lists those that are.';
    END IF;
END $$;

-- The grant of the login that calls, whichever role it has set.
CREATE FUNCTION farrier.prove_worker() RETURNS farrier.workers
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := (SELECT w FROM workers w WHERE w.login = session_user);
BEGIN
    IF granted.login IS NULL THEN
        RAISE EXCEPTION 'login % is not granted any tasks', session_user
            USING ERRCODE = 'FR403', HINT = 'An operator calls farrier.grant_worker with this login and the types of its tasks.';
    END IF;
    RETURN granted;
END $$;

-- The calls of a worker: tasks of any node that its grant covers, proven by its login.
CREATE FUNCTION farrier.claim_work(types text[] DEFAULT NULL, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := prove_worker();
    wanted text[] := coalesce(types, granted.types);
BEGIN
    IF NOT wanted <@ granted.types THEN
        RAISE EXCEPTION 'login % is granted tasks of %, not all of %', session_user, array_to_string(granted.types, ', '), left(wanted::text, 200)
            USING ERRCODE = 'FR403', HINT = 'Leave types out to take whatever is granted.';
    END IF;
    RETURN QUERY SELECT * FROM take_task('worker ' || granted.login, wanted, NULL, granted.site, lease);
END $$;

CREATE FUNCTION farrier.renew_work(task bigint, lease_token uuid, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task('worker ' || (prove_worker()).login, task, lease_token, lease);
END $$;

CREATE FUNCTION farrier.finish_work(task bigint, lease_token uuid, succeeded boolean, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task('worker ' || (prove_worker()).login, task, lease_token, succeeded, result);
    END IF;
END $$;

SELECT farrier.let_call('farrier_worker', f) FROM unnest(ARRAY[
    'farrier.claim_work(text[],interval)', 'farrier.renew_work(bigint,uuid,interval)',
    'farrier.finish_work(bigint,uuid,boolean,jsonb)']) f;
SELECT farrier.grant_rights();
