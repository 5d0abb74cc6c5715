-- Workers on tasks of several nodes: each login has what farrier.grant_worker gave it.
GRANT EXECUTE ON FUNCTION farrier.claim_work, farrier.renew_work, farrier.finish_work TO farrier_worker;
