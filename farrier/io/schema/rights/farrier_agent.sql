-- Agents on nodes, and servers for agents. An agent authenticates with its key, and reads only the tasks of its own node. A server for
-- agents passes on the digests of their keys.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agent, farrier.heartbeat, farrier.claim_task, farrier.renew_task, farrier.finish_task
    TO farrier_agent;
-- For farrier's own programs.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agents, farrier.take_beats, farrier.claim_by_key, farrier.renew_by_key, farrier.finish_by_key, farrier.put_facts,
    farrier.pulse_agents_door, farrier.leave_door
    TO farrier_agent;
