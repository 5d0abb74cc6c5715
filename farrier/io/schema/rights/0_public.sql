-- PUBLIC has no rights on tables, views and functions of farrier; on types it has USAGE, which the server grants by default. Each
-- role of farrier may use the schema, the clock and the versions of schema and API. Every migration executes the files of this
-- directory, and revokes the rights that the previous set granted and the new set does not grant; rights that an
-- operator granted stay. ALL FUNCTIONS and ALL TABLES mean those of farrier.
REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;
GRANT USAGE ON SCHEMA farrier TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_monitor, farrier_reader;
GRANT EXECUTE ON FUNCTION farrier.now, farrier.api_version, farrier.schema_version
    TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_monitor, farrier_reader;
