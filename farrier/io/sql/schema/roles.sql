-- Creates the six roles if they are missing. Roles belong to the whole cluster, so a migration of another database may create them
-- at the same time.
DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY['farrier_controller', 'farrier_intents', 'farrier_agent', 'farrier_worker', 'farrier_monitor', 'farrier_reader'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role_name);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role_name);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
        END;
    END LOOP;
END
$$
