-- How long a statement of this transaction waits for a lock: everybody who comes later waits behind it.
SELECT set_config('lock_timeout', $1, true)
