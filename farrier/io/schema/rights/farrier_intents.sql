-- Services and people that register nodes and submit intents.
GRANT INSERT (node, action, params, idempotency_key, requested_by, api_version) ON farrier.intents TO farrier_intents;
GRANT INSERT (kind, resource, action, params, idempotency_key, requested_by) ON farrier.resource_intents TO farrier_intents;
GRANT SELECT ON
    farrier.intents, farrier.all_intents, farrier.node_inventory, farrier.node_quarantines, farrier.node_lifecycle, farrier.node_clocks, farrier.brakes_holding, farrier.braked_nodes, farrier.brakes_lifted,
    farrier.resource_intents, farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions
    TO farrier_intents;
GRANT EXECUTE ON FUNCTION
    farrier.register_node, farrier.issue_bootstrap, farrier.revoke_bootstrap, farrier.bootstrap_token, farrier.set_ib_ports,
    farrier.intent, farrier.foresee, farrier.foreseen, farrier.enqueue, farrier.lift_brake, farrier.list_holds, farrier.lift_holds,
    farrier.resource_intent, farrier.list_resources,
    farrier.list_addresses, farrier.allocate_address, farrier.release_address,
    farrier.partition_members, farrier.join_partition, farrier.leave_partition
    TO farrier_intents;
-- For farrier's own programs.
GRANT EXECUTE ON FUNCTION
    farrier.show_resources, farrier.any_resource, farrier.resource_names,
    farrier.count_resources, farrier.count_states, farrier.late_resources, farrier.shard_of,
    farrier.alert_labels, farrier.report_as, farrier.refuse_truncated,
    farrier.pulse_pages_door, farrier.leave_door
    TO farrier_intents;
