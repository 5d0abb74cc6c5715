-- The daemon. It writes the decisions of its runs, and only reads the model, the records of the schema, and history.
GRANT SELECT, INSERT, UPDATE, DELETE ON
    farrier.mends, farrier.pulse, farrier.limits,
    farrier.controllers, farrier.doors, farrier.marks, farrier.outcomes,
    farrier.nodes, farrier.node_conditions, farrier.node_macs, farrier.node_onboardings, farrier.node_decommissions,
    farrier.bootstrap_tokens, farrier.node_agents, farrier.node_tasks, farrier.intents,
    farrier.maas_regions, farrier.node_observations, farrier.machine_disks, farrier.questions,
    farrier.departures, farrier.brakes, farrier.held_nodes, farrier.brake_lifts, farrier.restore_holds,
    farrier.resources, farrier.resource_intents, farrier.number_pools, farrier.pool_numbers, farrier.freed_numbers,
    farrier.network_segments, farrier.segment_usage, farrier.segment_prefixes, farrier.segment_free, farrier.segment_addresses,
    farrier.ib_partitions, farrier.ib_members, farrier.node_uses, farrier.node_ib_ports
    TO farrier_controller;
GRANT SELECT, DELETE ON farrier.wakes TO farrier_controller;
GRANT SELECT, UPDATE ON farrier.shards TO farrier_controller;
GRANT SELECT, UPDATE ON farrier.settings TO farrier_controller;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA farrier TO farrier_controller;
GRANT SELECT ON
    farrier.migrator, farrier.schema_steps, farrier.schema_set, farrier.schema_objects,
    farrier.edges, farrier.workflow_mapping, farrier.workflow_statuses, farrier.workflow_modes, farrier.clock_stops, farrier.contradictions,
    farrier.constants, farrier.actions, farrier.task_types, farrier.condition_drops,
    farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions, farrier.callable,
    farrier.locks, farrier.history, farrier.history_retention,
    farrier.node_bmcs, farrier.node_identities, farrier.bmc_logins, farrier.workers, farrier.monitors, farrier.monitor_refusals,
    farrier.outages, farrier.dead_doors, farrier.installation, farrier.departing, farrier.brakes_holding, farrier.braked_nodes, farrier.brakes_lifted, farrier.still_clocks, farrier.maas_motion, farrier.node_clocks, farrier.node_states, farrier.node_workflows, farrier.workflow_clocks,
    farrier.all_intents, farrier.node_inventory, farrier.node_quarantines, farrier.node_lifecycle, farrier.shard_owners, farrier.effects
    TO farrier_controller;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;
REVOKE EXECUTE ON FUNCTION farrier.grant_rights, farrier.grant_kind_rights, farrier.let_call, farrier.make_kind, farrier.forget_kind,
    farrier.grant_worker, farrier.revoke_worker, farrier.grant_monitor, farrier.revoke_monitor, farrier.settle_here, farrier.move_here
    FROM farrier_controller CASCADE;
