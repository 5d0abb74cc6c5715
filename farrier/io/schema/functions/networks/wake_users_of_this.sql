-- Enqueues the nodes in onboarding that use the row's segment or partition. Trigger function; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.wake_users_of_this() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM wake_users(TG_ARGV[0], NEW.name);
    RETURN NULL;
END $$;
