-- Limits how long a statement of this transaction waits for a lock, because all later transactions wait behind it.
SELECT set_config('lock_timeout', $1, true)
