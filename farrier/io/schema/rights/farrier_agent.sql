-- Agents on nodes. An agent authenticates with its key, and reads only the tasks of its own node.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agent, farrier.heartbeat, farrier.claim_task, farrier.renew_task, farrier.finish_task,
    farrier.pulse_agents_door, farrier.leave_door
    TO farrier_agent;
