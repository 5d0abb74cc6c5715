-- Workers, which execute tasks of several nodes. Each login may claim the tasks for which farrier.grant_worker granted
-- it the right.
GRANT EXECUTE ON FUNCTION farrier.claim_work, farrier.renew_work, farrier.finish_work TO farrier_worker;
