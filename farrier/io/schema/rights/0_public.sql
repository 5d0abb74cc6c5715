-- PUBLIC has no rights on tables, views and functions of farrier; on types it has USAGE, as the server makes them. Each role of
-- farrier sees the schema, the clock and the version of the API. Every migration executes these files, and revokes what the set
-- before granted and this one does not; what an operator granted to any role stays. All functions and all tables are those of
-- farrier.
REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;
GRANT USAGE ON SCHEMA farrier TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;
GRANT EXECUTE ON FUNCTION farrier.now, farrier.api_version
    TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;
