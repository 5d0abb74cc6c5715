-- Agents on nodes. Each proves itself with its key and sees the tasks of its own node.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agent, farrier.heartbeat, farrier.claim_task, farrier.renew_task, farrier.finish_task
    TO farrier_agent;
