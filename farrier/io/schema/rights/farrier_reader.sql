-- Dashboards and operators: they read everything except secrets and the tokens of tasks, including what `farrier db check` reads.
GRANT SELECT ON
    farrier.node_inventory, farrier.node_quarantines, farrier.node_lifecycle, farrier.node_clocks, farrier.brakes_holding, farrier.braked_nodes, farrier.brakes_lifted,
    farrier.nodes, farrier.node_conditions, farrier.condition_drops, farrier.node_macs, farrier.node_onboardings, farrier.node_decommissions, farrier.node_workflows, farrier.node_observations, farrier.maas_regions,
    farrier.intents, farrier.all_intents, farrier.history, farrier.outcomes, farrier.controllers, farrier.doors, farrier.dead_doors, farrier.shards, farrier.shard_owners, farrier.wakes, farrier.effects, farrier.workers, farrier.monitors, farrier.monitor_refusals, farrier.departures, farrier.brake_lifts, farrier.restore_holds, farrier.installation,
    farrier.schema_steps, farrier.schema_set, farrier.schema_objects, farrier.node_identities,
    farrier.limits, farrier.edges, farrier.workflow_statuses, farrier.clock_stops, farrier.actions,
    farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions, farrier.resource_intents, farrier.number_pools, farrier.pool_numbers
    TO farrier_reader;
GRANT SELECT (
    id, node_id, workflow_id, type, status, params, attempt, failures, claimed_by, lease_until, result, evidence, created_at, dispatched_at, ended_at
    ) ON farrier.node_tasks TO farrier_reader;
GRANT EXECUTE ON FUNCTION
    farrier.foresee, farrier.foreseen, farrier.list_resources, farrier.list_holds, farrier.list_addresses, farrier.partition_members
    TO farrier_reader;
-- For farrier's own programs.
GRANT SELECT ON farrier.node_states, farrier.workflow_clocks, farrier.still_clocks, farrier.departing TO farrier_reader;
-- For farrier's own programs.
GRANT EXECUTE ON FUNCTION
    farrier.show_resources, farrier.any_resource, farrier.resource_names,
    farrier.count_resources, farrier.count_states, farrier.late_resources,
    farrier.columns_of, farrier.selected_nodes, farrier.late_clocks, farrier.text_array, farrier.node_facts, farrier.same_machine, farrier.alike_machines, farrier.shard_of
    TO farrier_reader;
