-- Returns the types of tasks that the model has: farrier.model.node.TaskType.
CREATE OR REPLACE FUNCTION farrier.task_types() RETURNS text[] LANGUAGE sql IMMUTABLE
    RETURN '{node.drain,node.uninstall,node.scrub_gpu,node.cleanup_storage,node.validate_clean,node.release_allocations}'::text[];
