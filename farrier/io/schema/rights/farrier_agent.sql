-- Agents on nodes: each proves itself with its key and sees its own node's tasks.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agent, farrier.heartbeat, farrier.claim_task, farrier.renew_task, farrier.finish_task
    TO farrier_agent;
