-- Workers on tasks of several nodes. Each login may claim what farrier.grant_worker granted it.
GRANT EXECUTE ON FUNCTION farrier.claim_work, farrier.renew_work, farrier.finish_work TO farrier_worker;
