-- PUBLIC has no rights. Each role of farrier sees the schema, the clock and the version of the API.
REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;
GRANT USAGE ON SCHEMA farrier TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;
GRANT EXECUTE ON FUNCTION farrier.now, farrier.api_version
    TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;
