-- Creates the logins of the servers that run beside a controller with an embedded database, if they are missing.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'farrier_serve') THEN
        CREATE ROLE farrier_serve LOGIN IN ROLE farrier_intents, farrier_reader;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'farrier_serve_agents') THEN
        CREATE ROLE farrier_serve_agents LOGIN IN ROLE farrier_agent;
    END IF;
END
$$
